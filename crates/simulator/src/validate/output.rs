//! The rules for `output_config` and related settings.

use serde_json::{Map, Value};

use super::{Checked, Rules, refuse};
use crate::models::{EFFORTS, Model};
use crate::request::ApiRequest;

/// Maximum length of `metadata.user_id` in characters.
const LONGEST_USER: usize = 256;

/// The keywords that no grammar can express.
const UNSUPPORTED: [&str; 10] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
    "patternProperties",
];

/// The form of the settings, and the support of the model for them.
pub(super) fn check(request: ApiRequest<'_>, model: Model<'_>, rules: &Rules) -> Checked {
    metadata(request)?;
    service_tier(request)?;
    stop_sequences(request)?;
    let Some(config) = request.get("output_config").and_then(Value::as_object) else {
        return Ok(());
    };
    let knows = |field: &str| {
        matches!(field, "effort" | "format")
            || (field == "task_budget" && rules.betas.any(&["task-budgets-2026-03-13"]))
    };
    if let Some(field) = config.keys().find(|field| !knows(field)) {
        return refuse(format!("output_config.{field}: Extra inputs are not permitted"));
    }
    effort(config, request, model)?;
    format(config, model)
}

fn metadata(request: ApiRequest<'_>) -> Checked {
    let Some(metadata) = request.get("metadata").and_then(Value::as_object) else {
        return Ok(());
    };
    if let Some(field) = metadata.keys().find(|field| *field != "user_id") {
        return refuse(format!("metadata.{field}: Extra inputs are not permitted"));
    }
    match metadata.get("user_id") {
        Some(Value::String(user)) if user.chars().count() > LONGEST_USER => refuse(format!(
            "metadata.user_id: String should have at most {LONGEST_USER} characters"
        )),
        None | Some(Value::Null | Value::String(_)) => Ok(()),
        Some(_) => refuse("metadata.user_id: Input should be a valid string"),
    }
}

fn service_tier(request: ApiRequest<'_>) -> Checked {
    match request.get("service_tier").map(Value::as_str) {
        None | Some(Some("auto" | "standard_only")) => Ok(()),
        Some(_) => refuse("service_tier: Input should be 'auto' or 'standard_only'"),
    }
}

fn stop_sequences(request: ApiRequest<'_>) -> Checked {
    let texts = request.get("stop_sequences").and_then(Value::as_array);
    for (at, text) in texts.into_iter().flatten().enumerate() {
        match text.as_str() {
            None => {
                return refuse(format!("stop_sequences.{at}: Input should be a valid string"));
            }
            Some(text) if text.trim().is_empty() => {
                return refuse("stop_sequences: each stop sequence must contain non-whitespace");
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn effort(config: &Map<String, Value>, request: ApiRequest<'_>, model: Model<'_>) -> Checked {
    let Some(effort) = config.get("effort") else { return Ok(()) };
    let Some(level) = effort.as_str().filter(|level| EFFORTS.contains(level)) else {
        return refuse(
            "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'",
        );
    };
    if EFFORTS.iter().all(|level| !model.takes_effort(level)) {
        return refuse("This model does not support the effort parameter.");
    }
    if !model.takes_effort(level) {
        return refuse(format!("This model does not support effort level '{level}'."));
    }
    if request.thinking() == Some("disabled") && !model.takes_disabled_thinking_at(level) {
        return refuse(format!(
            "\"thinking.type.disabled\" is not supported for this model with effort '{level}'."
        ));
    }
    Ok(())
}

fn format(config: &Map<String, Value>, model: Model<'_>) -> Checked {
    let Some(format) = config.get("format").filter(|format| !format.is_null()) else {
        return Ok(());
    };
    let at = "output_config.format";
    if !model.takes_format() {
        return refuse(format!("{at}: structured outputs are not supported for this model."));
    }
    if format.get("type").is_none_or(|kind| kind != "json_schema") {
        return refuse(format!("{at}.type: Input should be 'json_schema'"));
    }
    match format.get("schema") {
        None => refuse(format!("{at}.schema: Field required")),
        Some(schema) if !schema.is_object() => {
            refuse(format!("{at}.schema: Input should be a valid dictionary"))
        }
        Some(schema) => grammar("output_config.format.schema", schema),
    }
}

/// Checks that a grammar can express a schema, as far as its keywords show.
pub(super) fn grammar(at: &str, schema: &Value) -> Checked {
    let parts: Vec<&Value> = match schema {
        Value::Array(parts) => parts.iter().collect(),
        Value::Object(words) => {
            let kind = words.get("type").and_then(Value::as_str).unwrap_or_default();
            let is_closed = words.get("additionalProperties") == Some(&Value::Bool(false));
            if kind == "object" && !is_closed {
                return refuse(format!(
                    "{at}: For 'object' type, 'additionalProperties' must be explicitly set to \
                     false"
                ));
            }
            if let Some(word) = words.keys().find(|word| UNSUPPORTED.contains(&word.as_str())) {
                return refuse(format!(
                    "{at}: For '{kind}' type, property '{word}' is not supported"
                ));
            }
            parts_of(words)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return Ok(()),
    };
    parts.into_iter().try_for_each(|part| grammar(at, part))
}

/// Returns the schemas inside a schema. The client chooses the names in `properties`.
pub(super) fn parts_of(words: &Map<String, Value>) -> Vec<&Value> {
    let mut parts = Vec::new();
    for (word, value) in words {
        match (word.as_str(), value) {
            ("properties" | "$defs" | "definitions", Value::Object(named)) => {
                parts.extend(named.values());
            }
            ("items" | "anyOf" | "allOf" | "oneOf", part) => parts.push(part),
            _ => {}
        }
    }
    parts
}
