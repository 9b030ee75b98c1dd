//! A JSON object whose members keep their order and their exact text.

use std::fmt;

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// The members, in their original order.
#[derive(Debug, Clone, Default)]
pub(super) struct RawObject(Vec<(String, Box<RawValue>)>);

impl RawObject {
    pub(super) fn get(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_ref())
    }

    /// Deserializes a member; `None` if it is absent, null or of another type.
    pub(super) fn read<'a, T: Deserialize<'a>>(&'a self, key: &str) -> Option<T> {
        self.get(key).and_then(|value| serde_json::from_str(value.get()).ok())
    }

    /// Replaces a member at its position, or appends it.
    pub(super) fn set(&mut self, key: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Sets all members of another object except those that are null.
    pub(super) fn merge(&mut self, other: Self) {
        for (key, value) in other.0 {
            if value.get() != "null" {
                self.set(&key, value);
            }
        }
    }
}

impl RawObject {
    /// Removes a member and returns its value; `None` if it is absent or of another type.
    pub(super) fn take<T: DeserializeOwned>(&mut self, key: &str) -> Option<T> {
        serde_json::from_str(self.take_raw(key)?.get()).ok()
    }

    /// Removes a member and returns its value as received.
    pub(super) fn take_raw(&mut self, key: &str) -> Option<Box<RawValue>> {
        let at = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(at).1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_ref()))
    }

    /// Adds the members of a later piece of a stream: strings and lists continue the earlier ones,
    /// other values replace them.
    pub(super) fn continue_with(&mut self, later: Self) {
        self.add(later, |_| true);
    }

    fn add(&mut self, later: Self, continues: impl Fn(&str) -> bool) {
        for (key, value) in later.0.into_iter().filter(|(_, value)| value.get() != "null") {
            let value = match self.get(&key) {
                Some(known) if continues(&key) => continued(known, value),
                Some(_) if value.get() == r#""""# => continue,
                Some(_) | None => value,
            };
            self.set(&key, value);
        }
    }

    /// The number and the type of a list's element that can continue in a later piece.
    fn place(&self) -> Option<(u64, Option<String>)> {
        Some((self.read("index")?, self.read("type")))
    }
}

/// The members of a list's element that are sent in pieces. Others are repeated, or come once.
const TEXTS: [&str; 4] = ["text", "thinking", "summary", "arguments"];

/// The value of a member whose first part is known.
fn continued(known: &RawValue, later: Box<RawValue>) -> Box<RawValue> {
    let strings = [known, &*later].map(|value| value.get().strip_prefix('"')?.strip_suffix('"'));
    let whole = if let [Some(known), Some(later)] = strings {
        RawValue::from_string(format!("\"{known}{later}\""))
    } else {
        let lists = [known, &*later].map(|value| serde_json::from_str(value.get()));
        let [Ok(known), Ok(later_elements)] = lists else { return later };
        to_raw_value(&continued_list(known, later_elements))
    };
    whole.unwrap_or(later)
}

/// A list with the elements of its later piece. An element with the `index` and the `type` of an earlier
/// one continues it, as the reasoning of `OpenRouter` and `LiteLLM` does.
fn continued_list(mut list: Vec<Box<RawValue>>, later: Vec<Box<RawValue>>) -> Vec<Box<RawValue>> {
    let object = |value: &RawValue| serde_json::from_str::<RawObject>(value.get()).ok();
    for element in later {
        let place = object(&element).and_then(|it| it.place());
        let found = list.iter_mut().find_map(|known| {
            let whole = object(known)?;
            (place.is_some() && whole.place() == place).then_some((known, whole))
        });
        match (found, object(&element)) {
            (Some((known, mut whole)), Some(piece)) => {
                whole.add(piece, |name| TEXTS.contains(&name));
                if let Ok(whole) = to_raw_value(&whole) {
                    *known = whole;
                }
            }
            _ => list.push(element),
        }
    }
    list
}

impl FromIterator<(String, Box<RawValue>)> for RawObject {
    fn from_iter<I: IntoIterator<Item = (String, Box<RawValue>)>>(members: I) -> Self {
        Self(members.into_iter().collect())
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = RawObject;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(RawObject(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

impl Serialize for RawObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(json: &str) -> RawObject {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn strings_and_lists_of_pieces_continue_and_other_values_are_replaced() {
        let mut all = object(r#"{"a":"x\n","b":[{"i":0}],"c":{"d":1.0},"e":[]}"#);
        all.continue_with(object(r#"{"a":" \u00e9","b":[2],"c":{"d":2.50},"e":[3],"f":null}"#));
        let whole = serde_json::to_string(&all).unwrap();
        assert_eq!(whole, r#"{"a":"x\n \u00e9","b":[{"i":0},2],"c":{"d":2.50},"e":[3]}"#);
    }

    #[test]
    fn elements_with_the_same_index_and_type_continue() {
        let mut all =
            object(r#"{"b":[{"type":"t","text":"Let ","format":"f","signature":"","index":0}]}"#);
        all.continue_with(object(r#"{"b":[{"type":"t","text":"me.","format":"f","index":0}]}"#));
        all.continue_with(object(r#"{"b":[{"type":"t","text":"","signature":"s","index":0}]}"#));
        all.continue_with(object(
            r#"{"b":[{"type":"e","data":"x","index":0},{"type":"t","index":1}]}"#,
        ));
        let whole = serde_json::to_string(&all).unwrap();
        let first = r#"{"type":"t","text":"Let me.","format":"f","signature":"s","index":0}"#;
        let rest = r#"{"type":"e","data":"x","index":0},{"type":"t","index":1}"#;
        assert_eq!(whole, format!(r#"{{"b":[{first},{rest}]}}"#));
    }

    #[test]
    fn a_taken_member_is_removed_even_if_it_has_another_type() {
        let mut all = object(r#"{"a":1,"b":"x"}"#);
        assert_eq!(all.take::<String>("a"), None);
        assert_eq!(all.take::<String>("b").as_deref(), Some("x"));
        assert!(all.is_empty());
    }
}
