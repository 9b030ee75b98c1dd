//! The rules for the items of `input`.
//!
//! Source: the reference of "Create a model response" and the guides "Conversation state", "Function
//! calling" and "Reasoning models" of `OpenAI`, and the types of its Python client (3.54.0); the messages
//! are those that its forum and issue trackers quote.

use serde_json::{Map, Value, json};

use super::reasoning;
use crate::refusal::Refusal;
use crate::script::{Script, Unreadable};

type Checked = Result<(), Refusal>;

/// Maximum length of a call's id in characters.
const LONGEST_ID: usize = 64;
/// Maximum length of a function's name in characters.
const LONGEST_NAME: usize = 128;

pub(super) fn check(request: &Map<String, Value>) -> Checked {
    let items = match request.get("input") {
        None => return refuse("Missing required parameter: 'input'.".to_owned()),
        Some(Value::String(_)) => return Ok(()),
        Some(Value::Array(items)) => items,
        Some(_) => {
            return refuse(
                "Invalid type for 'input': expected one of a string or an array of input items."
                    .to_owned(),
            );
        }
    };
    if items.is_empty() {
        return refuse("Invalid 'input': empty array.".to_owned());
    }
    for (at, item) in items.iter().enumerate() {
        one(&format!("input[{at}]"), item)?;
    }
    reasoning_is_followed(items)?;
    paired(items)
}

fn one(at: &str, item: &Value) -> Checked {
    let known: &[&str] = match item["type"].as_str() {
        None | Some("message") => &["type", "role", "content", "id", "status", "phase"],
        Some("function_call") => &["type", "call_id", "name", "arguments", "id", "status"],
        Some("function_call_output") => &["type", "call_id", "output", "id", "status"],
        Some("reasoning") => &["type", "id", "summary", "content", "encrypted_content", "status"],
        Some(other) => return refuse(format!("Invalid value: '{other}'.")),
    };
    let mut fields = item.as_object().into_iter().flatten();
    if let Some((field, _)) = fields.find(|(field, _)| !known.contains(&field.as_str())) {
        return refuse(format!("Unknown parameter: '{at}.{field}'."));
    }
    match item["type"].as_str() {
        Some("function_call") => call(at, item),
        Some("function_call_output") => {
            id(at, item)?;
            content(&format!("{at}.output"), &item["output"], &["input_text", "input_image"])
        }
        Some("reasoning") => encrypted(item),
        _ => {
            let path = format!("{at}.content");
            match item["role"].as_str() {
                Some("assistant") => content(&path, &item["content"], &["output_text", "refusal"]),
                Some("user" | "system" | "developer") => {
                    content(&path, &item["content"], &["input_text", "input_image"])
                }
                Some(role) => refuse(format!(
                    "Invalid value: '{role}'. Supported values are: 'assistant', 'system', \
                     'developer', and 'user'."
                )),
                None => refuse(format!("Missing required parameter: '{at}.role'.")),
            }
        }
    }
}

fn call(at: &str, item: &Value) -> Checked {
    id(at, item)?;
    if !item["arguments"].is_string() {
        return refuse(format!("Invalid type for '{at}.arguments': expected a string."));
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name = item["name"].as_str().unwrap_or_default();
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(fits) {
        return refuse(format!(
            "Invalid '{at}.name': string does not match pattern. Expected a string that matches the \
             pattern '^[a-zA-Z0-9_-]+$'."
        ));
    }
    Ok(())
}

fn id(at: &str, item: &Value) -> Checked {
    match item["call_id"].as_str() {
        None | Some("") => refuse(format!("Missing required parameter: '{at}.call_id'.")),
        Some(id) if id.len() > LONGEST_ID => refuse(format!(
            "Invalid '{at}.call_id': string too long. Expected a string with maximum length \
             {LONGEST_ID}, but got a string with length {} instead.",
            id.len()
        )),
        Some(_) => Ok(()),
    }
}

fn content(at: &str, content: &Value, kinds: &[&str]) -> Checked {
    let Some(parts) = content.as_array() else {
        return if content.is_string() {
            Ok(())
        } else {
            refuse(format!("Invalid type for '{at}': expected one of an array or a string."))
        };
    };
    for (nth, part) in parts.iter().enumerate() {
        let kind = part["type"].as_str().unwrap_or_default();
        if !kinds.contains(&kind) {
            return refuse(format!(
                "Invalid value: '{kind}'. Supported values are: '{}'.",
                kinds.join("' and '")
            ));
        }
        let member = match kind {
            "input_image" => "image_url",
            "refusal" => "refusal",
            _ => "text",
        };
        if !part[member].is_string() {
            return refuse(format!("Missing required parameter: '{at}[{nth}].{member}'."));
        }
        let detail = part["detail"].as_str();
        if detail.is_some_and(|detail| !["low", "high", "auto", "original"].contains(&detail)) {
            return refuse(format!("Invalid value for '{at}[{nth}].detail'."));
        }
    }
    Ok(())
}

/// Nothing is stored, so reasoning comes back encrypted, and unchanged.
fn encrypted(item: &Value) -> Checked {
    let id = item["id"].as_str().unwrap_or_default();
    if !item["encrypted_content"].is_string() {
        let message = format!(
            "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try \
             again with `store` set to true, or remove this item from your input."
        );
        return Err(Refusal::not_found(message));
    }
    if reasoning::is_unchanged(item) {
        return Ok(());
    }
    Err(unverified(&format!("The encrypted content for item {id} could not be verified.")))
}

fn unverified(message: &str) -> Refusal {
    let details = json!({ "error_code": "invalid_encrypted_content" });
    Refusal { details: Some(details), ..Refusal::invalid(message) }
}

/// The item that follows reasoning is one of the same reply.
fn reasoning_is_followed(items: &[Value]) -> Checked {
    let is_of_reply = |item: &Value| {
        matches!(item["type"].as_str(), Some("reasoning" | "function_call"))
            || item["role"] == "assistant"
    };
    for (at, item) in items.iter().enumerate().filter(|(_, item)| item["type"] == "reasoning") {
        if !items.get(at + 1).is_some_and(is_of_reply) {
            return refuse(format!(
                "Item '{}' of type 'reasoning' was provided without its required following item.",
                item["id"].as_str().unwrap_or_default()
            ));
        }
    }
    Ok(())
}

/// Every call has an output after it, and every output a call before it.
fn paired(items: &[Value]) -> Checked {
    let of = |kind: &'static str| {
        let all = items.iter().enumerate().filter(move |(_, item)| item["type"] == kind);
        all.map(|(at, item)| (at, item["call_id"].as_str().unwrap_or_default()))
    };
    for (at, id) in of("function_call_output") {
        if !of("function_call").any(|(before, call)| call == id && before < at) {
            return refuse(format!(
                "No tool call found for function call output with call_id {id}."
            ));
        }
        if of("function_call_output").any(|(other, output)| output == id && other < at) {
            return refuse(format!("Duplicate function call output with call_id {id}."));
        }
    }
    for (at, id) in of("function_call") {
        if !of("function_call_output").any(|(after, output)| output == id && at < after) {
            return refuse(format!("No tool output found for function call {id}."));
        }
    }
    Ok(())
}

/// Refuses a request with an image or a reasoning item that the script declares unreadable. Only the
/// position of an image is named.
pub(super) fn unreadable(script: &Script, fields: &Map<String, Value>) -> Checked {
    let items = fields.get("input").and_then(Value::as_array).into_iter().flatten();
    for (at, item) in items.enumerate() {
        let is_refused = |refused: &&Unreadable| {
            refused.kind == "reasoning"
                && item["type"] == "reasoning"
                && refused.contains_text(item)
        };
        if let Some(refused) = script.unreadable.iter().find(is_refused) {
            return Err(unverified(&refused.message));
        }
        for member in ["content", "output"] {
            for (nth, part) in item[member].as_array().into_iter().flatten().enumerate() {
                let refused = script.unreadable.iter().find(|refused| {
                    refused.kind == "image"
                        && part["type"] == "input_image"
                        && refused.contains_text(part)
                });
                if let Some(refused) = refused {
                    let param = format!("input[{at}].{member}[{nth}].image_url");
                    let details = json!({ "error_code": "invalid_image", "param": param });
                    let refusal = Refusal::invalid(refused.message.clone());
                    return Err(Refusal { details: Some(details), ..refusal });
                }
            }
        }
    }
    Ok(())
}

fn refuse(message: String) -> Checked {
    Err(Refusal::invalid(message))
}
