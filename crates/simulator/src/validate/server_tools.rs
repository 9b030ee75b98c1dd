//! Definitions of the API's own tools: types, names and fields.

use serde_json::{Map, Value};

use super::fields::MCP;
use super::{Checked, Rules, refuse};
use crate::models::Model;
use crate::request::ApiRequest;

/// The types of tools that run on the server.
const SERVERS: [&str; 12] = [
    "web_search_20250305",
    "web_search_20260209",
    "web_search_20260318",
    "web_fetch_20250910",
    "web_fetch_20260209",
    "web_fetch_20260309",
    "web_fetch_20260318",
    "code_execution_20250825",
    "code_execution_20260120",
    "code_execution_20260521",
    "tool_search_tool_regex_20251119",
    "tool_search_tool_bm25_20251119",
];

/// The types of tools that the API defines and the client runs.
const CLIENTS: [&str; 5] = [
    "bash_20250124",
    "text_editor_20250728",
    "memory_20250818",
    "computer_toolset_20260801",
    "browser_toolset_20260801",
];

/// The fields that all of them have.
const FIELDS: [&str; 6] =
    ["type", "name", "cache_control", "strict", "defer_loading", "allowed_callers"];

/// Checks a definition whose type is not `custom`.
pub(super) fn check(at: usize, tool: &Value, rules: &Rules) -> Checked {
    let kind = tool.get("type").and_then(Value::as_str).unwrap_or_default();
    if CLIENTS.contains(&kind) || (kind == "mcp_toolset" && rules.betas.any(&MCP)) {
        return Ok(());
    }
    let Some(fields) = tool.as_object().filter(|_| SERVERS.contains(&kind)) else {
        let known: Vec<String> =
            CLIENTS.iter().chain(&SERVERS).map(|kind| format!("'{kind}'")).collect();
        return refuse(format!(
            "tools.{at}: Input tag '{kind}' found using 'type' does not match any of the expected \
             tags: 'custom', {}",
            known.join(", ")
        ));
    };
    let name = kind.rsplit_once('_').map_or(kind, |(name, _)| name);
    if fields.get("name").is_none_or(|named| named != name) {
        return refuse(format!("tools.{at}.{kind}.name: Input should be '{name}'"));
    }
    options(&format!("tools.{at}.{kind}"), name, fields, rules)
}

/// The possible members of `allowed_callers`.
const CALLERS: [&str; 3] = ["direct", "code_execution_20250825", "code_execution_20260120"];

/// The versions of the web tools from this date on filter results with code: by default, only code
/// calls them.
const FIRST_FILTERED: &str = "20260209";

/// The form of `allowed_callers`, and the support of the model for calls from code. The message is
/// recorded from the API, which refuses `web_search_20260209` with its default callers for Haiku 4.5.
pub(super) fn callers(request: ApiRequest<'_>, model: Model<'_>) -> Checked {
    let mut from_code = Vec::new();
    for (at, tool) in request.tools().iter().enumerate() {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        let is_from_code = match tool.get("allowed_callers").filter(|callers| !callers.is_null()) {
            None => is_filtered(tool),
            Some(callers) => {
                let names: Option<Vec<&str>> =
                    callers.as_array().map(|all| all.iter().filter_map(Value::as_str).collect());
                let is_valid = names.as_ref().is_some_and(|names| {
                    !names.is_empty() && names.iter().all(|name| CALLERS.contains(name))
                });
                if !is_valid {
                    return refuse(format!(
                        "tools.{at}.allowed_callers: Input should be 'direct', \
                         'code_execution_20250825' or 'code_execution_20260120'"
                    ));
                }
                names.is_some_and(|names| names.iter().any(|name| *name != "direct"))
            }
        };
        if is_from_code {
            from_code.push(name);
        }
    }
    if from_code.is_empty() || model.calls_from_code() {
        return Ok(());
    }
    refuse(format!(
        "'{}' does not support programmatic tool calling. The following tools have \
         `allowed_callers` that require it: {}. Explicitly set `allowed_callers=[\"direct\"]` on these \
         tools, or use a model that supports programmatic tool calling.",
        model.name,
        from_code.join(", ")
    ))
}

fn is_filtered(tool: &Value) -> bool {
    let kind = tool.get("type").and_then(Value::as_str).unwrap_or_default();
    kind.rsplit_once('_').is_some_and(|(name, date)| {
        matches!(name, "web_search" | "web_fetch") && date >= FIRST_FILTERED
    })
}

fn options(at: &str, name: &str, fields: &Map<String, Value>, rules: &Rules) -> Checked {
    let own: &[&str] = match name {
        "web_search" => &["max_uses", "allowed_domains", "blocked_domains", "user_location"],
        "web_fetch" => {
            &["max_uses", "allowed_domains", "blocked_domains", "citations", "max_content_tokens"]
        }
        _ => &[],
    };
    let knows = |field: &str| FIELDS.contains(&field) || own.contains(&field);
    match fields.keys().find(|field| !knows(field)) {
        Some(field) if rules.refuse_unknown_fields => {
            return refuse(format!("{at}.{field}: Extra inputs are not permitted"));
        }
        _ => {}
    }
    for field in ["max_uses", "max_content_tokens"] {
        if fields.get(field).is_some_and(|count| count.as_u64().is_none_or(|count| count == 0)) {
            return refuse(format!("{at}.{field}: Input should be greater than 0"));
        }
    }
    if fields.contains_key("allowed_domains") && fields.contains_key("blocked_domains") {
        return refuse(format!("{at}: only one of allowed_domains and blocked_domains can be set"));
    }
    Ok(())
}
