//! Requirements on the name and the schema of a tool.

use jsonschema::Validator;
use serde_json::Value;

use super::registry::BadTool;

/// Checks the name and the schema of a tool of any origin, and compiles the schema.
pub fn check_definition(name: &str, input_schema: &Value) -> Result<Validator, BadTool> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_legal) {
        return Err(BadTool::Name(name.to_owned()));
    }
    let bad = |cause: String| BadTool::Schema { name: name.to_owned(), cause };
    if input_schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(bad("its type is not \"object\"".to_owned()));
    }
    jsonschema::validator_for(input_schema).map_err(|error| bad(error.to_string()))
}
