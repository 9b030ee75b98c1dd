//! Strict reading of JSON: each error names the member by a JSON pointer.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_path_to_error::{Path as JsonPath, Segment};

use super::error::{Error, FieldError};
use super::type_errors::list_errors;
use crate::domain::plain_message::plain_message;
use crate::domain::plain_syntax::plain_syntax;

/// Reads one JSON object, and nothing after it. An error of the types lists all members that have
/// one.
pub(crate) fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, Error> {
    parse_strictly(json).map_err(|error| match error {
        ParseError::Syntax(cause) => Error::BadJson(plain_syntax(&cause)),
        ParseError::Type(first) => {
            let again = |json: &[u8]| match parse_strictly::<T>(json) {
                Err(ParseError::Type(error)) => Some(error),
                Err(ParseError::Syntax(_)) | Ok(_) => None,
            };
            Error::Validation(list_errors(json, first, again))
        }
    })
}

/// The first error of a document.
enum ParseError {
    /// It is not JSON.
    Syntax(serde_json::Error),
    /// A member does not match its type.
    Type(FieldError),
}

/// Reads one JSON object, and nothing after it, up to the first error.
fn parse_strictly<T: DeserializeOwned>(json: &[u8]) -> Result<T, ParseError> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let read: Result<Object<T>, _> = serde_path_to_error::deserialize(&mut deserializer);
    let Object(value) = read.map_err(|error| {
        let pointer = pointer(error.path());
        let cause = error.into_inner();
        if cause.is_data() {
            return ParseError::Type(FieldError::new(pointer, plain_message(&cause.to_string())));
        }
        ParseError::Syntax(cause)
    })?;
    deserializer.end().map_err(ParseError::Syntax)?;
    Ok(value)
}

/// A value that must be a JSON object. Without this, serde also accepts an array as the members of
/// a struct in their order.
#[derive(Debug)]
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_map(Members(PhantomData)).map(Self)
    }
}

/// Deserializes a member that must be an object.
pub(crate) fn object<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Object::deserialize(deserializer).map(|Object(value)| value)
}

/// Deserializes an optional member that must be an object.
pub(crate) fn some_object<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    object(deserializer).map(Some)
}

/// Deserializes a member that must be a list of objects.
pub(crate) fn objects<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let list = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(list.into_iter().map(|Object(value)| value).collect())
}

/// Deserializes an optional list of objects; an empty list differs from an absent one.
pub(crate) fn object_lists<'de, T, D>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    objects(deserializer).map(Some)
}

/// Deserializes an optional member that must not be null.
pub(crate) fn not_null<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Deserializes an optional member whose null differs from its absence.
#[expect(clippy::option_option, reason = "null differs from an absent member")]
pub(crate) fn nullable<'de, T, D>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

/// The JSON pointer (RFC 6901) of a path.
pub(crate) fn pointer(path: &JsonPath) -> String {
    path.iter()
        .map(|segment| match segment {
            Segment::Seq { index } => format!("/{index}"),
            Segment::Map { key } => format!("/{}", escape(key)),
            Segment::Enum { .. } | Segment::Unknown => String::new(),
        })
        .collect()
}

/// A member's name as one segment of a JSON pointer.
pub(crate) fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        #[serde(default)]
        _items: Vec<Item>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Item {
        _n: u8,
    }

    fn refused(body: &str) -> (String, String) {
        match parse::<Body>(body.as_bytes()) {
            Err(Error::Validation(mut errors)) => {
                let FieldError { pointer, message, .. } = errors.remove(0);
                (pointer, message)
            }
            other => panic!("expected a validation error, got {other:?}"),
        }
    }

    #[test]
    fn an_unknown_member_is_reported_by_its_pointer() {
        let (pointer, message) = refused(r#"{"_items":[{"_n":1},{"x/y":2}]}"#);
        assert_eq!(pointer, "/_items/1/x~1y");
        assert_eq!(message, "is not a known member; allowed: `_n`");
    }

    #[test]
    fn a_wrong_type_is_reported_by_its_pointer() {
        let (pointer, message) = refused(r#"{"_items":[{"_n":"one"}]}"#);
        assert_eq!(pointer, "/_items/0/_n");
        assert_eq!(message, "is a string; an integer from 0 to 255 is required");
    }

    #[test]
    fn an_array_is_not_read_as_an_object() {
        let (pointer, message) = refused("[[]]");
        assert_eq!(
            (pointer.as_str(), message.as_str()),
            ("", "is an array; an object is required")
        );
    }

    #[test]
    fn malformed_json_is_not_a_validation_error() {
        for body in ["", "{", "{}x", "nope", "{\"\\ud800\":1}"] {
            assert!(matches!(parse::<Body>(body.as_bytes()), Err(Error::BadJson(_))), "{body}");
        }
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Named {
        #[serde(rename = "name")]
        _name: String,
        #[serde(rename = "items", default)]
        _items: Vec<Numbered>,
        #[serde(rename = "size")]
        _size: Option<u8>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Numbered {
        #[serde(rename = "n")]
        _n: u8,
        #[serde(rename = "on")]
        _on: Option<bool>,
    }

    fn pointers(body: &str) -> Vec<String> {
        match parse::<Named>(body.as_bytes()) {
            Err(Error::Validation(errors)) => {
                errors.into_iter().map(|error| error.pointer).collect()
            }
            other => panic!("expected validation errors, got {other:?}"),
        }
    }

    #[test]
    fn all_wrong_members_are_listed() {
        for (body, expected) in [
            (r#"{"name":1,"size":"x","odd":2}"#, vec!["/name", "/odd", "/size"]),
            (r#"{"size":"x"}"#, vec!["/size", ""]),
            (r#"{"name":1}"#, vec!["/name"]),
            (
                r#"{"name":"a","items":[{"n":"x"},{"n":1},{"n":2,"on":3,"off":4},7,{"n":"y"}]}"#,
                vec!["/items/0/n", "/items/2/on", "/items/2/off", "/items/3", "/items/4/n"],
            ),
            (
                r#"{"name":"a","items":[{},{"n":"x"},{"on":true}]}"#,
                vec!["/items/0", "/items/1/n", "/items/2"],
            ),
            (r#"{"name":"a","name":"b","size":"x"}"#, vec!["", "/size"]),
            (r#"{"name":"a","a/b":1,"c~d":2}"#, vec!["/a~1b", "/c~0d"]),
            ("[1]", vec![""]),
        ] {
            let mut found = pointers(body);
            let mut expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            // Members are parsed in the order of the text, and later in the order of their names.
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{body}");
        }
    }

    #[test]
    fn the_list_has_an_end() {
        let items = vec!["7"; 1000].join(",");
        assert_eq!(pointers(&format!(r#"{{"name":"a","items":[{items}]}}"#)).len(), 20);
    }
}
