//! The use of tools in the first round.

use serde_json::Value;

use crate::domain::tool::ToolChoice;
use crate::http::error::ApiError;

/// Reads `tool_choice`: a word, or a function, whose name Chat Completions has in an object of its own.
pub(super) fn tool_choice(
    choice: Option<&Value>,
    has_parallel_calls: Option<bool>,
) -> Result<Option<ToolChoice>, ApiError> {
    let disable_parallel_tool_use = has_parallel_calls.map(|is_allowed| !is_allowed);
    let Some(choice) = choice.filter(|choice| !choice.is_null()) else {
        let is_limited = disable_parallel_tool_use == Some(true);
        return Ok(is_limited.then_some(ToolChoice::Auto { disable_parallel_tool_use }));
    };
    let is_function = choice.get("type").is_some_and(|kind| kind == "function");
    let own_name = choice.get("name").filter(|_| is_function);
    let name = choice.pointer("/function/name").or(own_name).and_then(Value::as_str);
    if let Some(name) = name {
        let name = name.to_owned();
        return Ok(Some(ToolChoice::Tool { name, disable_parallel_tool_use }));
    }
    Ok(Some(match choice.as_str() {
        Some("auto") => ToolChoice::Auto { disable_parallel_tool_use },
        Some("required") => ToolChoice::Any { disable_parallel_tool_use },
        Some("none") => ToolChoice::None,
        _ => {
            let problem = "is not `none`, `auto`, `required` or a function";
            return Err(ApiError::field("/tool_choice", problem));
        }
    }))
}
