//! Conversion of a request to the form of the Messages API, to select its reply in a script.

use serde_json::{Map, Value, json};

/// Converts a valid request, as far as scripts depend on it.
pub(super) fn in_messages_form(fields: &Map<String, Value>) -> Map<String, Value> {
    let mut converted = Map::new();
    for field in ["model", "stream"] {
        if let Some(value) = fields.get(field) {
            converted.insert(field.to_owned(), value.clone());
        }
    }
    if let Some(instructions) = fields.get("instructions") {
        converted.insert("system".to_owned(), instructions.clone());
    }
    let tools = fields.get("tools").and_then(Value::as_array).into_iter().flatten();
    let tools: Vec<Value> = tools
        .map(|tool| {
            json!({ "name": tool["name"], "description": tool["description"],
                    "input_schema": tool["parameters"] })
        })
        .collect();
    converted.insert("tools".to_owned(), tools.into());
    if let Some(choice) = fields.get("tool_choice") {
        let choice = match choice.as_str() {
            Some("required") => json!({ "type": "any" }),
            Some("none") => json!({ "type": "none" }),
            Some(_) => json!({ "type": "auto" }),
            None => json!({ "type": "tool", "name": choice["name"] }),
        };
        converted.insert("tool_choice".to_owned(), choice);
    }
    if fields.get("parallel_tool_calls") == Some(&Value::Bool(false)) {
        let choice = converted.entry("tool_choice").or_insert_with(|| json!({ "type": "auto" }));
        choice["disable_parallel_tool_use"] = true.into();
    }
    let mut messages = Vec::new();
    match fields.get("input") {
        Some(Value::Array(items)) => items.iter().for_each(|item| push(&mut messages, item)),
        Some(text) => messages.push(json!({ "role": "user", "content": text })),
        None => {}
    }
    converted.insert("messages".to_owned(), messages.into());
    converted
}

/// Adds an item to the last message of its role, or begins a message.
fn push(messages: &mut Vec<Value>, item: &Value) {
    let (role, block) = match item["type"].as_str() {
        Some("function_call") => {
            let arguments = item["arguments"].as_str().unwrap_or_default();
            let input: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
            let block = json!({ "type": "tool_use", "id": item["call_id"], "name": item["name"],
                                "input": input });
            ("assistant", vec![block])
        }
        Some("function_call_output") => {
            let block = json!({ "type": "tool_result", "tool_use_id": item["call_id"],
                                "content": parts(&item["output"]) });
            ("user", vec![block])
        }
        Some("reasoning") => return,
        _ => {
            let role = if item["role"] == "assistant" { "assistant" } else { "user" };
            (role, parts(&item["content"]))
        }
    };
    match messages.last_mut() {
        Some(last) if last["role"] == role => {
            if let Some(content) = last["content"].as_array_mut() {
                content.extend(block);
            }
        }
        _ => messages.push(json!({ "role": role, "content": block })),
    }
}

fn parts(content: &Value) -> Vec<Value> {
    let Some(parts) = content.as_array() else {
        return vec![json!({ "type": "text", "text": content })];
    };
    let block = |part: &Value| match part["type"].as_str() {
        Some("input_image") => {
            json!({ "type": "image", "source": { "type": "url", "url": part["image_url"] } })
        }
        _ => json!({ "type": "text", "text": part["text"] }),
    };
    parts.iter().map(block).collect()
}
