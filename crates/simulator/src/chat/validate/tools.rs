//! The rules for tool definitions and `tool_choice`.

use serde_json::{Map, Value};

use super::{Checked, refuse};

/// Maximum length of a function's name in characters.
const LONGEST_NAME: usize = 64;
/// Maximum number of tools.
const MAX_TOOLS: usize = 128;

pub(super) fn check(request: &Map<String, Value>) -> Checked {
    let tools = match request.get("tools") {
        None => return without(request),
        Some(Value::Array(tools)) => tools,
        Some(_) => return refuse("Invalid type for 'tools': expected an array of objects."),
    };
    if tools.is_empty() {
        return refuse(
            "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an \
             empty array instead.",
        );
    }
    if tools.len() > MAX_TOOLS {
        return refuse(format!(
            "Invalid 'tools': array too long. Expected an array with maximum length {MAX_TOOLS}, but \
             got an array with length {} instead.",
            tools.len()
        ));
    }
    for (at, tool) in tools.iter().enumerate() {
        definition(&format!("tools[{at}]"), tool)?;
    }
    choice(request, tools)
}

/// Without tools a request has no settings for them.
fn without(request: &Map<String, Value>) -> Checked {
    for field in ["tool_choice", "parallel_tool_calls"] {
        if request.contains_key(field) {
            return refuse(format!(
                "Invalid value for '{field}': '{field}' is only allowed when 'tools' are \
                 specified."
            ));
        }
    }
    Ok(())
}

fn definition(at: &str, tool: &Value) -> Checked {
    if tool["type"] != "function" {
        return refuse(format!("Invalid value for '{at}.type': expected 'function'."));
    }
    let Some(function) = tool["function"].as_object() else {
        return refuse(format!("Missing required parameter: '{at}.function'."));
    };
    let known = ["name", "description", "parameters", "strict"];
    if let Some(field) = function.keys().find(|field| !known.contains(&field.as_str())) {
        return refuse(format!("Unknown parameter: '{at}.function.{field}'."));
    }
    name(&format!("{at}.function.name"), function.get("name"))?;
    if function.get("description").is_some_and(|text| !text.is_string()) {
        return refuse(format!("Invalid type for '{at}.function.description': expected a string."));
    }
    if function.get("strict").is_some_and(|strict| !strict.is_boolean() && !strict.is_null()) {
        return refuse(format!("Invalid type for '{at}.function.strict': expected a boolean."));
    }
    if function.get("parameters").is_some_and(|schema| schema["type"] != "object") {
        return refuse(format!(
            "Invalid schema for function '{}': schema must be a JSON Schema of 'type: \"object\"'.",
            function.get("name").and_then(Value::as_str).unwrap_or_default()
        ));
    }
    Ok(())
}

/// Checks a function's name, in a definition or in the history.
pub(super) fn name(at: &str, name: Option<&Value>) -> Checked {
    let Some(name) = name.and_then(Value::as_str) else {
        return refuse(format!("Missing required parameter: '{at}'."));
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(fits) {
        return refuse(format!(
            "Invalid '{at}': string does not match pattern. Expected a string that matches the \
             pattern '^[a-zA-Z0-9_-]+$'."
        ));
    }
    if name.len() > LONGEST_NAME {
        return refuse(format!(
            "Invalid '{at}': string too long. Expected a string with maximum length \
             {LONGEST_NAME}, but got a string with length {} instead.",
            name.len()
        ));
    }
    Ok(())
}

fn choice(request: &Map<String, Value>, tools: &[Value]) -> Checked {
    let Some(choice) = request.get("tool_choice") else {
        return Ok(());
    };
    match choice.as_str() {
        Some("none" | "auto" | "required") => return Ok(()),
        Some(other) => {
            return refuse(format!(
                "Invalid value: '{other}'. Supported values are: 'none', 'auto', and 'required'."
            ));
        }
        None => {}
    }
    let wanted = choice.pointer("/function/name").and_then(Value::as_str);
    let Some(wanted) = wanted.filter(|_| choice["type"] == "function") else {
        return refuse("Missing required parameter: 'tool_choice.function.name'.");
    };
    let is_wanted =
        |tool: &Value| tool.pointer("/function/name").is_some_and(|name| name == wanted);
    if !tools.iter().any(is_wanted) {
        return refuse(format!(
            "Invalid value for 'tool_choice': no function named {wanted:?} was specified in the \
             'tools' parameter."
        ));
    }
    Ok(())
}
