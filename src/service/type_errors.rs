//! All members of a JSON document that do not match a type.
//!
//! The parser stops at the first one. To find the others, that member is left out and the rest is
//! parsed again, so every error is one of the parser itself.

use std::collections::BTreeSet;

use serde_json::Value;

use super::error::FieldError;

/// Maximum number of errors that are listed.
const MAX_ERRORS: usize = 20;
/// The size above which only the first error is reported: each error is one more parse.
const MAX_BYTES: usize = 256 * 1024;

/// A position in a document: names of members, escaped as in JSON pointers, and indexes of elements.
type Place = Vec<String>;

/// Lists the errors of a document whose first error is known. `parse` returns the first error of a
/// document.
pub(super) fn list_errors(
    json: &[u8],
    first: FieldError,
    parse: impl Fn(&[u8]) -> Option<FieldError>,
) -> Vec<FieldError> {
    let mut errors = vec![first];
    let whole =
        if json.len() <= MAX_BYTES { serde_json::from_slice::<Value>(json).ok() } else { None };
    let Some(mut rest) = whole else { return errors };
    let mut left_out = BTreeSet::new();
    // The first error again, unless it is one that this form of the document cannot have, such as a
    // member that occurs twice.
    while errors.len() < MAX_ERRORS {
        let Some(error) = serde_json::to_vec(&rest).ok().and_then(|rest| parse(&rest)) else {
            break;
        };
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

/// Returns true if the error is the absence of a member that was left out.
fn lacks_left_out(error: &FieldError, place: &Place, left_out: &BTreeSet<Place>) -> bool {
    let name = error.message.strip_prefix("lacks the member `");
    let Some(name) = name.and_then(|rest| rest.split('`').next()) else { return false };
    let name = name.replace('~', "~0").replace('/', "~1");
    let member: Place = place.iter().cloned().chain([name]).collect();
    left_out.contains(&member)
}

/// Removes the value at a place. Returns false for the document as a whole.
fn leave_out(document: &mut Value, place: &Place) -> bool {
    let Some((last, parents)) = place.split_last() else { return false };
    let Some(parent) = document.pointer_mut(&pointer(parents)) else { return false };
    if let Some(members) = parent.as_object_mut() {
        return members.shift_remove(&last.replace("~1", "/").replace("~0", "~")).is_some();
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
    pointer.split('/').skip(1).map(str::to_owned).collect()
}

fn pointer(place: &[String]) -> String {
    place.iter().flat_map(|segment| ["/", segment]).collect()
}
