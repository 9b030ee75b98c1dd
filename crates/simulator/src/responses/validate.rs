//! The rules for the members of a request. The sources are those of [`super::input`].

use serde_json::{Map, Value, json};

use super::input;
use crate::Options;
use crate::chat;
use crate::refusal::Refusal;

type Checked = Result<(), Refusal>;

const KNOWN: [&str; 27] = [
    "background",
    "conversation",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
];
const EFFORTS: [&str; 6] = ["none", "minimal", "low", "medium", "high", "xhigh"];
/// The smallest output budget.
const MIN_OUTPUT: u64 = 16;

/// Checks a whole request, except for its length.
pub(super) fn check(request: &Map<String, Value>, rules: &Options) -> Checked {
    let unknown = request.keys().find(|field| !KNOWN.contains(&field.as_str()));
    if let Some(field) = unknown.filter(|_| rules.refuse_unknown_fields) {
        return refuse(format!("Unknown parameter: '{field}'."));
    }
    for member in ["previous_response_id", "conversation"] {
        if let Some(id) = request.get(member).filter(|id| !id.is_null()) {
            return refuse(format!("Previous response with id {id} not found."));
        }
    }
    match request.get("max_output_tokens").map(Value::as_u64) {
        None => {}
        Some(Some(tokens)) if tokens >= MIN_OUTPUT => {}
        Some(other) => {
            return refuse(format!(
                "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= \
                 {MIN_OUTPUT}, but got {other:?} instead."
            ));
        }
    }
    let effort = request.get("reasoning").and_then(|reasoning| reasoning.get("effort"));
    if let Some(effort) = effort
        && !effort.as_str().is_some_and(|word| EFFORTS.contains(&word))
    {
        return refuse(format!(
            "Invalid value: {effort}. Supported values are: '{}'.",
            EFFORTS.join("', '")
        ));
    }
    for name in request.get("include").and_then(Value::as_array).into_iter().flatten() {
        if name != "reasoning.encrypted_content" {
            return refuse(format!("Invalid value: {name}."));
        }
    }
    chat::check_shared(&as_completion(request), rules)?;
    input::check(request)
}

/// Checks that an input of `tokens` tokens fits into the context window.
pub(super) fn window(options: &Options, tokens: usize) -> Checked {
    if u64::try_from(tokens).is_ok_and(|tokens| tokens > options.max_input_tokens) {
        let message = "Your input exceeds the context window of this model. Please adjust your input \
                       and try again.";
        let details = json!({ "error_code": "context_length_exceeded", "param": "input" });
        return Err(Refusal { details: Some(details), ..Refusal::invalid(message) });
    }
    Ok(())
}

/// The members whose rules both protocols of the API share, in the form of Chat Completions.
fn as_completion(request: &Map<String, Value>) -> Map<String, Value> {
    let mut shared = Map::new();
    for name in ["model", "stream", "parallel_tool_calls"] {
        if let Some(value) = request.get(name) {
            shared.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(tools) = request.get("tools").and_then(Value::as_array) {
        let tools: Vec<Value> = tools.iter().map(tool).collect();
        shared.insert("tools".to_owned(), tools.into());
    }
    match request.get("tool_choice") {
        Some(choice) if choice.is_object() => {
            let choice = json!({ "type": choice["type"], "function": { "name": choice["name"] } });
            shared.insert("tool_choice".to_owned(), choice);
        }
        Some(choice) => drop(shared.insert("tool_choice".to_owned(), choice.clone())),
        None => {}
    }
    if let Some(format) = request.get("text").and_then(|text| text.get("format")) {
        let mut named = format.clone();
        let kind = named.as_object_mut().and_then(|members| members.shift_remove("type"));
        let format = json!({ "type": kind, "json_schema": named });
        shared.insert("response_format".to_owned(), format);
    }
    shared
}

fn tool(tool: &Value) -> Value {
    let mut function = tool.clone();
    let kind = function.as_object_mut().and_then(|members| members.shift_remove("type"));
    json!({ "type": kind, "function": function })
}

fn refuse(message: String) -> Checked {
    Err(Refusal::invalid(message))
}
