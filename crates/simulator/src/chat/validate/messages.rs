//! The rules for a single message: role, fields and content.

use serde_json::{Map, Value};

use super::{Checked, refuse, tools};

/// Maximum length of a call's id in characters.
const LONGEST_ID: usize = 40;

pub(super) fn check(request: &Map<String, Value>, refuse_unknown: bool) -> Checked {
    let messages = match request.get("messages") {
        None => return refuse("Missing required parameter: 'messages'."),
        Some(Value::Array(messages)) => messages,
        Some(_) => return refuse("Invalid type for 'messages': expected an array of objects."),
    };
    if messages.is_empty() {
        return refuse(
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an \
             empty array instead.",
        );
    }
    let model = request.get("model").and_then(Value::as_str).unwrap_or_default();
    let returns_reasoning = super::returns_reasoning(model);
    for (at, message) in messages.iter().enumerate() {
        let at = format!("messages[{at}]");
        let known: &[&str] = match message["role"].as_str() {
            Some("system" | "developer" | "user") => &["role", "content", "name"],
            Some("assistant") if returns_reasoning => {
                &["role", "content", "name", "refusal", "tool_calls", "reasoning_content"]
            }
            Some("assistant") => &["role", "content", "name", "refusal", "tool_calls"],
            Some("tool") => &["role", "content", "tool_call_id"],
            Some(other) => {
                return refuse(format!(
                    "Invalid value: '{other}'. Supported values are: 'system', 'assistant', \
                     'user', 'function', 'tool', and 'developer'."
                ));
            }
            None => return refuse(format!("Missing required parameter: '{at}.role'.")),
        };
        let mut fields = message.as_object().into_iter().flat_map(Map::keys);
        if let Some(field) = fields.find(|field| !known.contains(&field.as_str()))
            && refuse_unknown
        {
            return refuse(format!("Unknown parameter: '{at}.{field}'."));
        }
        content(&at, message)?;
        calls(&at, message)?;
    }
    Ok(())
}

/// A string or parts. Only a user message may have images, and only a message with calls may have
/// no content.
fn content(at: &str, message: &Value) -> Checked {
    let parts = match &message["content"] {
        Value::String(_) => return Ok(()),
        Value::Null if !message["tool_calls"].is_null() => return Ok(()),
        Value::Null => {
            return refuse(format!(
                "Invalid value for 'content': expected a string, got null ('{at}.content')."
            ));
        }
        Value::Array(parts) if !parts.is_empty() => parts,
        Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            return refuse(format!(
                "Invalid type for '{at}.content': expected one of a string or array of objects."
            ));
        }
    };
    let shows = message["role"] == "user";
    for (nth, part) in parts.iter().enumerate() {
        let at = format!("{at}.content[{nth}]");
        match part["type"].as_str() {
            Some("text") if part["text"].is_string() => {}
            Some("image_url") if shows => image(&at, part.pointer("/image_url/url"))?,
            Some(other) => {
                return refuse(format!(
                    "Invalid value: '{other}'. Supported values are: 'text', 'image_url', \
                     'input_audio', 'refusal', 'audio', and 'file' ('{at}.type')."
                ));
            }
            None => return refuse(format!("Missing required parameter: '{at}.type'.")),
        }
    }
    Ok(())
}

fn image(at: &str, url: Option<&Value>) -> Checked {
    let Some(url) = url.and_then(Value::as_str) else {
        return refuse(format!("Missing required parameter: '{at}.image_url.url'."));
    };
    let is_inline = url.starts_with("data:image/") && url.contains(";base64,");
    if is_inline || url.starts_with("https://") || url.starts_with("http://") {
        return Ok(());
    }
    refuse(format!("Invalid '{at}.image_url.url'. Expected a valid URL."))
}

fn calls(at: &str, message: &Value) -> Checked {
    let calls = match &message["tool_calls"] {
        Value::Null => return Ok(()),
        Value::Array(calls) => calls,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            return refuse(format!("Invalid type for '{at}.tool_calls': expected an array."));
        }
    };
    if calls.is_empty() {
        return refuse(format!(
            "Invalid '{at}.tool_calls': empty array. Expected an array with minimum length 1, but \
             got an empty array instead."
        ));
    }
    for (nth, call) in calls.iter().enumerate() {
        let at = format!("{at}.tool_calls[{nth}]");
        let Some(id) = call["id"].as_str() else {
            return refuse(format!("Missing required parameter: '{at}.id'."));
        };
        if id.len() > LONGEST_ID {
            return refuse(format!(
                "Invalid '{at}.id': string too long. Expected a string with maximum length \
                 {LONGEST_ID}, but got a string with length {} instead.",
                id.len()
            ));
        }
        if call["type"] != "function" {
            return refuse(format!("Missing required parameter: '{at}.type'."));
        }
        tools::name(&format!("{at}.function.name"), call.pointer("/function/name"))?;
        if !call.pointer("/function/arguments").is_some_and(Value::is_string) {
            return refuse(format!(
                "Invalid type for '{at}.function.arguments': expected a string."
            ));
        }
    }
    Ok(())
}
