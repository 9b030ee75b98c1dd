use serde_json::{Value, json};

use super::{refusal, request};

fn with_tool(tool: &Value) -> String {
    refusal(&request(&json!({ "tools": [tool] })))
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
