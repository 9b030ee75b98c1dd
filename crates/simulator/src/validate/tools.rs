//! Tool definitions, `tool_choice`, and definitions for the tools in the history.

use std::collections::HashSet;

use serde_json::Value;

use super::{Checked, Rules, refuse, server_tools};
use crate::models::Model;
use crate::request::{ApiRequest, ToolChoice, Turn};

/// Maximum length of a tool's name in characters.
const LONGEST_NAME: usize = 64;

const FIELDS: [&str; 10] = [
    "type",
    "name",
    "description",
    "input_schema",
    "strict",
    "cache_control",
    "input_examples",
    "eager_input_streaming",
    "defer_loading",
    "allowed_callers",
];

/// Checks each definition, and the uniqueness of the names.
pub(super) fn definitions(request: ApiRequest<'_>, rules: &Rules) -> Checked {
    let mut names = HashSet::new();
    for (at, tool) in request.tools().iter().enumerate() {
        let custom = tool.get("type").is_none_or(|kind| kind == "custom");
        if custom {
            definition(&format!("tools.{at}.custom"), tool, rules)?;
        } else {
            server_tools::check(at, tool, rules)?;
        }
        if let Some(name) = tool.get("name").and_then(Value::as_str)
            && !names.insert(name)
        {
            return refuse("tools: Tool names must be unique.");
        }
    }
    Ok(())
}

fn definition(at: &str, tool: &Value, rules: &Rules) -> Checked {
    let Some(fields) = tool.as_object() else {
        return refuse(format!("{at}: Input should be a valid dictionary"));
    };
    match fields.get("name").map(Value::as_str) {
        None => return refuse(format!("{at}.name: Field required")),
        Some(None) => return refuse(format!("{at}.name: Input should be a valid string")),
        Some(Some(name)) if !is_name(name) => {
            return refuse(format!(
                "{at}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
            ));
        }
        Some(Some(_)) => {}
    }
    if fields.get("description").is_some_and(|description| !description.is_string()) {
        return refuse(format!("{at}.description: Input should be a valid string"));
    }
    let Some(schema) = fields.get("input_schema") else {
        return refuse(format!("{at}.input_schema: Field required"));
    };
    match schema.get("type") {
        None => return refuse(format!("{at}.input_schema.type: Field required")),
        Some(kind) if kind != "object" => {
            return refuse(format!("{at}.input_schema.type: Input should be 'object'"));
        }
        Some(_) => {}
    }
    match fields.keys().find(|field| !FIELDS.contains(&field.as_str())) {
        Some(field) if rules.refuse_unknown_fields => {
            refuse(format!("{at}.{field}: Extra inputs are not permitted"))
        }
        _ => Ok(()),
    }
}

fn is_name(name: &str) -> bool {
    is_word(name, LONGEST_NAME)
}

/// True for 1 to `most` of the characters that names and ids may have.
pub(super) fn is_word(text: &str, most: usize) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !text.is_empty() && text.len() <= most && text.chars().all(fits)
}

/// The form of `tool_choice`, and the support of model and tools for it.
pub(super) fn choice(request: ApiRequest<'_>, model: Model<'_>) -> Checked {
    let Some(choice) = request.get("tool_choice") else {
        return Ok(());
    };
    let kind = choice.get("type").and_then(Value::as_str);
    match kind {
        None => return refuse("tool_choice.type: Field required"),
        Some("auto" | "any" | "tool" | "none") => {}
        Some(other) => {
            return refuse(format!(
                "tool_choice: Input tag '{other}' found using 'type' does not match any of the \
                 expected tags: 'auto', 'any', 'tool', 'none'"
            ));
        }
    }
    choice_members(choice, kind.unwrap_or_default())?;
    if request.tools().is_empty() {
        return refuse("tool_choice: tool_choice may only be specified while providing tools");
    }
    if matches!(kind, Some("any" | "tool")) && !model.takes_forced_tools() {
        return refuse("tool_choice: type \"tool\" and \"any\" are not supported for this model.");
    }
    match request.choice() {
        ToolChoice::Tool("") => refuse("tool_choice.tool.name: Field required"),
        ToolChoice::Tool(name) if !request.offers(name) => {
            refuse(format!("Tool '{name}' not found in provided tools"))
        }
        ToolChoice::Auto | ToolChoice::Any | ToolChoice::Tool(_) | ToolChoice::None => Ok(()),
    }
}

/// The members that a choice of this type has.
fn choice_members(choice: &Value, kind: &str) -> Checked {
    let known: &[&str] = match kind {
        "tool" => &["type", "name", "disable_parallel_tool_use"],
        "none" => &["type"],
        _ => &["type", "disable_parallel_tool_use"],
    };
    let mut members = choice.as_object().into_iter().flatten();
    if let Some((member, _)) = members.find(|(member, _)| !known.contains(&member.as_str())) {
        return refuse(format!("tool_choice.{kind}.{member}: Extra inputs are not permitted"));
    }
    if choice.get("disable_parallel_tool_use").is_some_and(|disabled| !disabled.is_boolean()) {
        return refuse(format!(
            "tool_choice.{kind}.disable_parallel_tool_use: Input should be a valid boolean"
        ));
    }
    Ok(())
}

/// A history with tool blocks needs tool definitions.
pub(super) fn history(request: ApiRequest<'_>, turns: &[Turn<'_>]) -> Checked {
    let uses_tools = || {
        let mut blocks = turns.iter().flat_map(|turn| &turn.blocks);
        blocks.any(|located| matches!(located.block.kind(), "tool_use" | "tool_result"))
    };
    if request.tools().is_empty() && uses_tools() {
        return refuse(
            "Requests which include `tool_use` or `tool_result` blocks must define tools.",
        );
    }
    Ok(())
}
