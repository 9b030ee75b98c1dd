//! JSON merge patch (RFC 7396). Members that a patch does not name keep their position and bytes.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The members of an object, in their order; the last of two members with one name counts.
#[derive(Debug, Default)]
struct Members(Vec<(String, Box<RawValue>)>);

impl Members {
    /// Parses the members of a JSON text; none if it is not an object.
    fn of(json: &RawValue) -> Result<Option<Self>, serde_json::Error> {
        let is_object = json.get().trim_start().starts_with('{');
        is_object.then(|| serde_json::from_str(json.get())).transpose()
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|(other, _)| other == name)
    }

    fn set(&mut self, name: String, value: Box<RawValue>) {
        let place = self.place(&name);
        match place.and_then(|place| self.0.get_mut(place)) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    fn take(&mut self, name: &str) {
        self.0.retain(|(other, _)| other != name);
    }

    fn into_json(self) -> Result<Box<RawValue>, serde_json::Error> {
        let mut json = String::from("{");
        for (index, (name, value)) in self.0.iter().enumerate() {
            if index > 0 {
                json.push(',');
            }
            json.push_str(&serde_json::to_string(name)?);
            json.push(':');
            json.push_str(value.get());
        }
        json.push('}');
        RawValue::from_string(json)
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Members::default();
                while let Some((name, value)) = map.next_entry()? {
                    members.set(name, value);
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(Reader)
    }
}

/// Applies a patch to a target. The recursion is as deep as the patch.
pub fn merge(target: &RawValue, patch: &RawValue) -> Result<Box<RawValue>, serde_json::Error> {
    let Some(changes) = Members::of(patch)? else {
        return Ok(patch.to_owned());
    };
    let mut members = Members::of(target)?.unwrap_or_default();
    for (name, change) in changes.0 {
        if change.get() == "null" {
            members.take(&name);
            continue;
        }
        let before = members.place(&name).and_then(|place| members.0.get(place));
        let value = merge(before.map_or(RawValue::NULL, |(_, value)| value), &change)?;
        members.set(name, value);
    }
    members.into_json()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(target: &str, patch: &str) -> String {
        let raw = |text: &str| serde_json::from_str::<Box<RawValue>>(text).unwrap();
        merge(&raw(target), &raw(patch)).unwrap().get().to_owned()
    }

    /// The examples of RFC 7396, appendix A.
    #[test]
    fn the_examples_of_the_rfc_give_the_expected_results() {
        for (target, patch, result) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
            (r#"{"a":"foo"}"#, "null", "null"),
            (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
            ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            assert_eq!(merged(target, patch), result, "{target} {patch}");
        }
    }

    #[test]
    fn unnamed_members_keep_their_position_and_bytes() {
        let target = r#"{"z":1.50,"a":{"y": 12345678901234567890123,"b":2},"é\"":[ 1 ]}"#;
        assert_eq!(
            merged(target, r#"{"a":{"b":3}}"#),
            r#"{"z":1.50,"a":{"y":12345678901234567890123,"b":3},"é\"":[ 1 ]}"#
        );
    }

    #[test]
    fn the_last_of_two_members_with_one_name_counts() {
        assert_eq!(merged(r#"{"a":1,"b":2,"a":3}"#, r#"{"c":4,"c":5}"#), r#"{"a":3,"b":2,"c":5}"#);
    }
}
