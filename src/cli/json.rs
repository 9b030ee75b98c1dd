//! Access to members of JSON values; a missing member is empty.

use serde_json::Value;

/// Returns a string member, or an empty string.
pub(super) fn string<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a string member that is not empty.
pub(super) fn non_empty_string<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    Some(string(value, key)).filter(|text| !text.is_empty())
}

/// Returns an array member, or an empty slice.
pub(super) fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
