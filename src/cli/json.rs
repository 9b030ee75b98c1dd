//! Reading JSON whose shape the service decides: what is not there is empty.

use serde_json::Value;

/// A member that is a text.
pub(super) fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A member that is a text with something in it.
pub(super) fn some_word<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    Some(word(value, key)).filter(|word| !word.is_empty())
}

/// A member that is a list.
pub(super) fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
