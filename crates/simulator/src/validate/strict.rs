//! Strict tools: documentation of structured outputs, "Schema complexity limits" and "JSON Schema
//! limitations". The texts of the limits are not documented.

use serde_json::Value;

use super::output::{grammar, parts_of};
use super::{Checked, refuse};
use crate::models::Model;
use crate::request::ApiRequest;

/// Maximum number of strict tools of a request.
const MAX_STRICT: usize = 20;

/// Maximum number of optional members in all strict schemas of a request.
const MAX_OPTIONAL: usize = 24;
/// Maximum number of members with several types in them.
const MAX_UNIONS: usize = 16;

/// Checks the strict tools of a request.
pub(super) fn check(request: ApiRequest<'_>, model: Model<'_>) -> Checked {
    let is_strict = |tool: &&Value| tool.get("strict") == Some(&Value::Bool(true));
    let strict: Vec<&Value> = request.tools().iter().filter(is_strict).collect();
    if strict.is_empty() {
        return Ok(());
    }
    if !model.takes_format() {
        return refuse("tools: strict tools are not supported for this model.");
    }
    if strict.len() > MAX_STRICT {
        return refuse(format!("tools: at most {MAX_STRICT} tools can be strict"));
    }
    for (at, tool) in request.tools().iter().enumerate().filter(|(_, tool)| is_strict(tool)) {
        if let Some(schema) = tool.get("input_schema") {
            grammar(&format!("tools.{at}.custom"), schema)?;
        }
    }
    let schemas = strict.iter().filter_map(|tool| tool.get("input_schema"));
    let output = request.get("output_config").and_then(|config| config.pointer("/format/schema"));
    let (mut optional, mut unions) = (0, 0);
    for schema in schemas.chain(output) {
        count(schema, &mut optional, &mut unions);
    }
    if optional > MAX_OPTIONAL || unions > MAX_UNIONS {
        return refuse(format!(
            "Schema is too complex: {optional} optional parameters (at most {MAX_OPTIONAL}), {unions} \
             parameters with union types (at most {MAX_UNIONS})"
        ));
    }
    Ok(())
}

/// Counts the optional members of a schema, and those with several types.
fn count(schema: &Value, optional: &mut usize, unions: &mut usize) {
    match schema {
        Value::Array(parts) => {
            for part in parts {
                count(part, optional, unions);
            }
        }
        Value::Object(words) => {
            let has_types = words.get("type").is_some_and(Value::is_array);
            *unions += usize::from(has_types || words.contains_key("anyOf"));
            if let Some(Value::Object(named)) = words.get("properties") {
                let required = words.get("required").and_then(Value::as_array);
                let is_required = |name: &&String| {
                    required.is_some_and(|names| names.iter().any(|it| it == name.as_str()))
                };
                *optional += named.keys().filter(|name| !is_required(name)).count();
            }
            for part in parts_of(words) {
                count(part, optional, unions);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
