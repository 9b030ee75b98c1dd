//! The input of a tool call, from the text that the model wrote.

use serde_json::value::{RawValue, to_raw_value};

/// The input exactly as the model wrote it; no text at all means `{}`. What is not an object is
/// wrapped into one, because the model takes back nothing else; it never passes the check of a
/// tool's schema.
pub(super) fn as_input(text: &str) -> Option<Box<RawValue>> {
    let json = text.trim();
    if json.is_empty() {
        return RawValue::from_string("{}".to_owned()).ok();
    }
    // As strictly as the model reads it when it comes back: numbers out of range, lone surrogates
    // and bottomless nesting are no JSON to it.
    if serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(json).is_ok() {
        return RawValue::from_string(json.to_owned()).ok();
    }
    to_raw_value(&serde_json::json!({ "INVALID_JSON": text })).ok()
}
