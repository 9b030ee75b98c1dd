//! Conversion of a request to the form of the Messages API, to select its reply in a script.

use serde_json::{Map, Value, json};

/// Converts a valid request, as far as scripts depend on it.
pub(super) fn in_messages_form(fields: &Map<String, Value>) -> Map<String, Value> {
    let list = |field: &str| fields.get(field).and_then(Value::as_array).into_iter().flatten();
    let mut converted = Map::new();
    for field in ["model", "stream"] {
        if let Some(value) = fields.get(field) {
            converted.insert(field.to_owned(), value.clone());
        }
    }
    let tools: Vec<Value> = list("tools").map(|tool| definition(&tool["function"])).collect();
    converted.insert("tools".to_owned(), tools.into());
    if let Some(choice) = fields.get("tool_choice") {
        converted.insert("tool_choice".to_owned(), tool_choice(choice));
    }
    if fields.get("parallel_tool_calls") == Some(&Value::Bool(false)) {
        let choice = converted.entry("tool_choice").or_insert_with(|| json!({ "type": "auto" }));
        choice["disable_parallel_tool_use"] = true.into();
    }
    let mut messages: Vec<Value> = Vec::new();
    for message in list("messages") {
        match message["role"].as_str() {
            Some("user") => messages.push(user(&message["content"])),
            Some("assistant") => messages.push(assistant(message)),
            Some("tool") => push_result(&mut messages, message),
            Some("system" | "developer") => {
                converted.insert("system".to_owned(), message["content"].clone());
            }
            // Scripts do not depend on it.
            _ => {}
        }
    }
    converted.insert("messages".to_owned(), messages.into());
    converted
}

fn definition(function: &Value) -> Value {
    json!({ "name": function["name"], "description": function["description"],
            "input_schema": function["parameters"] })
}

fn tool_choice(choice: &Value) -> Value {
    match choice.as_str() {
        Some("required") => json!({ "type": "any" }),
        Some("none") => json!({ "type": "none" }),
        Some(_) => json!({ "type": "auto" }),
        None => json!({ "type": "tool", "name": choice.pointer("/function/name") }),
    }
}

fn user(content: &Value) -> Value {
    let Some(parts) = content.as_array() else {
        return json!({ "role": "user", "content": content });
    };
    let block = |part: &Value| match part["type"].as_str() {
        Some("text") => part.clone(),
        _ => {
            json!({ "type": "image", "source": { "type": "url", "url": part.pointer("/image_url/url") } })
        }
    };
    json!({ "role": "user", "content": parts.iter().map(block).collect::<Vec<_>>() })
}

fn assistant(message: &Value) -> Value {
    let said = message["content"].as_str().filter(|text| !text.is_empty());
    let mut blocks: Vec<Value> =
        said.map(|text| json!({ "type": "text", "text": text })).into_iter().collect();
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let arguments =
            call.pointer("/function/arguments").and_then(Value::as_str).unwrap_or_default();
        let input: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
        let name = call.pointer("/function/name");
        blocks.push(json!({ "type": "tool_use", "id": call["id"], "name": name, "input": input }));
    }
    json!({ "role": "assistant", "content": blocks })
}

/// Consecutive results form one message in the Messages API.
fn push_result(messages: &mut Vec<Value>, message: &Value) {
    let result = json!({ "type": "tool_result", "tool_use_id": message["tool_call_id"],
                         "content": message["content"] });
    if let Some(last) = messages.last_mut()
        && let Some(blocks) = last["content"].as_array_mut()
        && blocks.last().is_some_and(|block| block["type"] == "tool_result")
    {
        blocks.push(result);
        return;
    }
    messages.push(json!({ "role": "user", "content": [result] }));
}
