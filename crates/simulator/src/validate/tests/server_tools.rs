use serde_json::{Value, json};

use super::{refusal, request};

fn with_tool(tool: &Value) -> String {
    refusal(&request(&json!({ "tools": [tool] })))
}

#[test]
fn a_model_without_calls_from_code_refuses_tools_that_are_called_from_code() {
    let search = |kind: &str| json!({ "type": kind, "name": "web_search" });
    let mut direct = search("web_search_20260318");
    direct["allowed_callers"] = json!(["direct"]);
    let mut code = search("web_search_20250305");
    code["allowed_callers"] = json!(["direct", "code_execution_20260120"]);
    let on =
        |model: &str, tool: &Value| refusal(&request(&json!({ "model": model, "tools": [tool] })));
    let expected = "'claude-haiku-4-5' does not support programmatic tool calling. The following \
                    tools have `allowed_callers` that require it: web_search. Explicitly set \
                    `allowed_callers=[\"direct\"]` on these tools, or use a model that supports \
                    programmatic tool calling.";
    for tool in [search("web_search_20260209"), search("web_search_20260318"), code.clone()] {
        assert_eq!(on("claude-haiku-4-5", &tool), expected, "{tool}");
        assert_eq!(on("claude-sonnet-4-6", &tool), "", "{tool}");
    }
    for tool in [search("web_search_20250305"), direct.clone()] {
        assert_eq!(on("claude-haiku-4-5", &tool), "", "{tool}");
    }
    direct["allowed_callers"] = json!(["user"]);
    let expected = "tools.0.allowed_callers: Input should be 'direct', 'code_execution_20250825' or \
                    'code_execution_20260120'";
    assert_eq!(on("claude-haiku-4-5", &direct), expected);
}

#[test]
fn a_server_tool_has_a_known_type_its_name_and_its_own_fields() {
    for (tool, expected) in [
        (json!({ "type": "web_search_20250305", "name": "web_search", "max_uses": 3 }), ""),
        (json!({ "type": "code_execution_20260521", "name": "code_execution" }), ""),
        (json!({ "type": "bash_20250124", "name": "bash" }), ""),
        (
            json!({ "type": "web_search_20260318", "name": "search" }),
            "tools.0.web_search_20260318.name: Input should be 'web_search'",
        ),
        (
            json!({ "type": "web_search_20260318", "name": "web_search", "max_uses": 0 }),
            "tools.0.web_search_20260318.max_uses: Input should be greater than 0",
        ),
        (
            json!({ "type": "code_execution_20260521", "name": "code_execution", "max_uses": 1 }),
            "tools.0.code_execution_20260521.max_uses: Extra inputs are not permitted",
        ),
        (
            json!({ "type": "web_fetch_20260318", "name": "web_fetch",
                    "allowed_domains": ["a.org"], "blocked_domains": ["b.org"] }),
            "tools.0.web_fetch_20260318: only one of allowed_domains and blocked_domains can be set",
        ),
    ] {
        assert_eq!(with_tool(&tool), expected);
    }
    let unknown = with_tool(&json!({ "type": "web_search_20240101", "name": "web_search" }));
    let beginning = "tools.0: Input tag 'web_search_20240101' found using 'type' does not match";
    assert!(unknown.starts_with(beginning), "{unknown}");
}
