//! All members of a JSON document that do not match a type.
//!
//! The parser stops at the first one. To find the others, that member is left out and the rest is
//! parsed again, so every error is one of the parser itself.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::FieldError;
use super::json::{ParseError, parse_strictly};

/// Maximum number of errors that are listed.
const MAX_ERRORS: usize = 20;
/// The size above which only the first error is reported: each error is one more parse.
const MAX_BYTES: usize = 256 * 1024;

/// A position in a document: names of members and indexes of elements.
type Place = Vec<String>;

/// Lists the errors of a document whose first error is known.
pub(super) fn list_errors<T: DeserializeOwned>(json: &[u8], first: FieldError) -> Vec<FieldError> {
    let mut errors = vec![first];
    let whole =
        if json.len() <= MAX_BYTES { serde_json::from_slice::<Value>(json).ok() } else { None };
    let Some(mut rest) = whole else { return errors };
    let mut left_out = BTreeSet::new();
    // The first error again, unless it is one that this form of the document cannot have, such as a
    // member that occurs twice.
    while errors.len() < MAX_ERRORS {
        let Some(error) = next_error::<T>(&rest) else { break };
        let place = segments(&error.pointer);
        let original = original(&place, &left_out);
        let error = FieldError::new(pointer(&original), error.message);
        if !lacks_left_out(&error, &original, &left_out) && !errors.contains(&error) {
            errors.push(error);
        }
        if !leave_out(&mut rest, &place) {
            break;
        }
        left_out.insert(original);
    }
    errors
}

fn next_error<T: DeserializeOwned>(document: &Value) -> Option<FieldError> {
    let json = serde_json::to_vec(document).ok()?;
    match parse_strictly::<T>(&json) {
        Err(ParseError::Type(error)) => Some(error),
        Err(ParseError::Syntax(_)) | Ok(_) => None,
    }
}

/// Returns true if the error is the absence of a member that was left out.
fn lacks_left_out(error: &FieldError, place: &Place, left_out: &BTreeSet<Place>) -> bool {
    let name = error.message.strip_prefix("lacks the member `");
    let Some(name) = name.and_then(|rest| rest.split('`').next()) else { return false };
    let member: Place = place.iter().cloned().chain([name.to_owned()]).collect();
    left_out.contains(&member)
}

/// Removes the value at a place. Returns false for the document as a whole.
fn leave_out(document: &mut Value, place: &Place) -> bool {
    let Some((last, parents)) = place.split_last() else { return false };
    let Some(parent) = document.pointer_mut(&pointer(parents)) else { return false };
    if let Some(members) = parent.as_object_mut() {
        return members.shift_remove(last).is_some();
    }
    let Some(elements) = parent.as_array_mut() else { return false };
    let index: Option<usize> = last.parse().ok().filter(|index| *index < elements.len());
    index.map(|index| elements.remove(index)).is_some()
}

/// The place in the original document of a place in the document without the parts that were left
/// out: indexes after a removed element are too small.
fn original(place: &Place, left_out: &BTreeSet<Place>) -> Place {
    let mut known: Place = Vec::new();
    for segment in place {
        let mut segment = segment.clone();
        if let Ok(mut index) = segment.parse::<usize>() {
            let before = |at: usize| {
                let mut element = known.clone();
                element.push(at.to_string());
                left_out.contains(&element)
            };
            // The element with this index is the one that so many remaining elements precede.
            let mut at = 0;
            while before(at) || index > 0 {
                index -= usize::from(!before(at));
                at += 1;
            }
            segment = at.to_string();
        }
        known.push(segment);
    }
    known
}

fn segments(pointer: &str) -> Place {
    let segments = pointer.split('/').skip(1);
    segments.map(|segment| segment.replace("~1", "/").replace("~0", "~")).collect()
}

fn pointer(place: &[String]) -> String {
    place.iter().map(|segment| format!("/{}", super::json::escape(segment))).collect()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::service::Error;
    use crate::service::json::parse;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        #[serde(rename = "name")]
        _name: String,
        #[serde(rename = "items", default)]
        _items: Vec<Item>,
        #[serde(rename = "size")]
        _size: Option<u8>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Item {
        #[serde(rename = "n")]
        _n: u8,
        #[serde(rename = "on")]
        _on: Option<bool>,
    }

    fn pointers(body: &str) -> Vec<String> {
        match parse::<Body>(body.as_bytes()) {
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
        assert_eq!(pointers(&format!(r#"{{"name":"a","items":[{items}]}}"#)).len(), MAX_ERRORS);
    }
}
