//! The rules for the reasoning effort and the response format.

use serde_json::{Map, Value};

use super::{Checked, refuse};

const EFFORTS: [&str; 4] = ["minimal", "low", "medium", "high"];

pub(super) fn check(request: &Map<String, Value>) -> Checked {
    if let Some(effort) = request.get("reasoning_effort")
        && !effort.as_str().is_some_and(|word| EFFORTS.contains(&word))
    {
        return refuse(format!(
            "Invalid value: {effort}. Supported values are: 'minimal', 'low', 'medium', and \
             'high'."
        ));
    }
    request.get("response_format").map_or(Ok(()), format)
}

fn format(format: &Value) -> Checked {
    match format.get("type").and_then(Value::as_str) {
        Some("text" | "json_object") => return Ok(()),
        Some("json_schema") => {}
        _ => {
            return refuse(
                "Invalid value for 'response_format.type'. Supported values are: 'text', \
                 'json_object', and 'json_schema'.",
            );
        }
    }
    let Some(named) = format.get("json_schema").and_then(Value::as_object) else {
        return refuse("Missing required parameter: 'response_format.json_schema'.");
    };
    let Some(name) = named.get("name").and_then(Value::as_str) else {
        return refuse("Missing required parameter: 'response_format.json_schema.name'.");
    };
    let Some(schema) = named.get("schema").filter(|schema| schema.is_object()) else {
        return refuse(format!(
            "Invalid schema for response_format '{name}': schema must be a JSON Schema of \
             'type: \"object\"'."
        ));
    };
    if named.get("strict").is_some_and(|strict| strict == true) {
        return strict(name, schema);
    }
    Ok(())
}

/// A strict schema allows no additional properties and requires every property.
fn strict(name: &str, schema: &Value) -> Checked {
    let start = format!("Invalid schema for response_format '{name}': ");
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        if schema.get("additionalProperties").is_none_or(|more| more != false) {
            return refuse(format!(
                "{start}'additionalProperties' is required to be supplied and to be false."
            ));
        }
        let required = schema.get("required").and_then(Value::as_array);
        let is_required =
            |key: &String| required.into_iter().flatten().any(|name| name == key.as_str());
        if let Some(missing) = properties.keys().find(|key| !is_required(key)) {
            return refuse(format!(
                "{start}'required' is required to be supplied and to be an array including every \
                 key in properties. Missing '{missing}'."
            ));
        }
        properties.values().try_for_each(|schema| strict(name, schema))?;
    }
    schema.get("items").map_or(Ok(()), |items| strict(name, items))
}
