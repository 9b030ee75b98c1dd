//! Parses the input of a tool call from the text that the model wrote.

use serde_json::value::{RawValue, to_raw_value};

/// Returns the input byte for byte as the model wrote it; empty text is `{}`. Text that is not a
/// JSON object is wrapped into one, because the model accepts only objects when the history is
/// sent back. The wrapper never validates against the schema of a tool.
pub(super) fn as_input(text: &str) -> Option<Box<RawValue>> {
    let json = text.trim();
    if json.is_empty() {
        return RawValue::from_string("{}".to_owned()).ok();
    }
    // As strict as the provider's parser, which rejects numbers out of range, lone surrogates and
    // excessive nesting when the input is sent back.
    if serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(json).is_ok() {
        return RawValue::from_string(json.to_owned()).ok();
    }
    to_raw_value(&serde_json::json!({ "INVALID_JSON": text })).ok()
}
