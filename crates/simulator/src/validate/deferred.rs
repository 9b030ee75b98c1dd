//! Deferred tools and references to them.

use serde_json::Value;

use super::{Checked, refuse};
use crate::deferred::{is_deferred, references};
use crate::models::Model;
use crate::request::ApiRequest;

/// Checks the definitions. Public reports quote the refusals of deferred tools with a breakpoint.
pub(super) fn definitions(request: ApiRequest<'_>, model: Model<'_>) -> Checked {
    let tools = request.tools();
    if let Some(tool) = tools.iter().find(|tool| {
        is_deferred(tool) && tool.get("cache_control").is_some_and(|marker| !marker.is_null())
    }) {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        return refuse(format!(
            "Tool '{name}' cannot have both defer_loading=true and cache_control set. Tools with \
             defer_loading cannot use prompt caching."
        ));
    }
    if !tools.is_empty() && tools.iter().all(is_deferred) {
        return refuse("All tools have defer_loading: true");
    }
    // The documentation lists the models, but not the text of the refusal.
    if tools.iter().any(is_deferred) && !model.has_tool_search() {
        return refuse(format!("tools: {} does not support tool search", model.name));
    }
    Ok(())
}

/// Checks the references of the whole history. Each names a tool of the request ("Tool reference …",
/// troubleshooting section of the documentation of the tool search tool), and only other
/// references are next to it. The texts are those of public reports.
pub(super) fn history(request: ApiRequest<'_>) -> Checked {
    for (_, sent) in request.sent() {
        let mut count = 0;
        for reference in references(sent.block) {
            count += 1;
            let Some(name) = reference.get("tool_name").and_then(Value::as_str) else {
                return refuse(format!(
                    "{}.tool_result.content.tool_reference.tool_name: Field required",
                    sent.at
                ));
            };
            if !request.offers(name) {
                return refuse(format!("Tool reference '{name}' not found in available tools"));
            }
        }
        let parts = sent.block.get("content").and_then(Value::as_array).map_or(0, Vec::len);
        if count > 0 && count < parts {
            return refuse(
                "Tool definitions/code execution functions cannot be mixed with other content",
            );
        }
    }
    Ok(())
}
