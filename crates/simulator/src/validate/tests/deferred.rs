use serde_json::{Value, json};

use super::{assistant, call, refusal, request, text, tool, user};

fn deferred(name: &str) -> Value {
    let mut tool = tool(name);
    tool["defer_loading"] = json!(true);
    tool
}

fn found(parts: &Value) -> Value {
    let result = json!({ "type": "tool_result", "tool_use_id": "t", "content": parts });
    let messages = [user("hello"), assistant(json!([call("t")])), user(json!([result]))];
    request(&json!({ "tools": [tool("a"), deferred("b")], "messages": messages }))
}

fn reference(name: &str) -> Value {
    json!({ "type": "tool_reference", "tool_name": name })
}

#[test]
fn at_least_one_tool_is_not_deferred_and_no_deferred_tool_has_a_breakpoint() {
    let with = |tools: Value| refusal(&request(&json!({ "tools": tools })));
    assert_eq!(with(json!([tool("a"), deferred("b")])), "");
    assert_eq!(with(json!([deferred("a"), deferred("b")])), "All tools have defer_loading: true");
    let mut marked = deferred("b");
    marked["cache_control"] = json!({ "type": "ephemeral" });
    let expected = "Tool 'b' cannot have both defer_loading=true and cache_control set. Tools with \
                    defer_loading cannot use prompt caching.";
    assert_eq!(with(json!([tool("a"), marked])), expected);
}

#[test]
fn models_without_tool_search_refuse_deferred_tools() {
    let on = |model: &str| {
        refusal(&request(&json!({ "model": model, "tools": [tool("a"), deferred("b")] })))
    };
    for model in ["claude-haiku-4-5", "claude-sonnet-4-20250514", "claude-opus-5-5", "simulator"] {
        assert_eq!(on(model), "", "{model}");
    }
    for model in ["claude-3-5-haiku-20241022", "claude-3-7-sonnet-20250219"] {
        assert_eq!(on(model), format!("tools: {model} does not support tool search"));
    }
}

#[test]
fn references_name_tools_of_the_request_and_stand_alone() {
    assert_eq!(refusal(&found(&json!([reference("b"), reference("b")]))), "");
    let unknown = "Tool reference 'c' not found in available tools";
    assert_eq!(refusal(&found(&json!([reference("b"), reference("c")]))), unknown);
    let mixed = "Tool definitions/code execution functions cannot be mixed with other content";
    assert_eq!(refusal(&found(&json!([reference("b"), text("found")]))), mixed);
    let nameless = refusal(&found(&json!([{ "type": "tool_reference" }])));
    assert!(nameless.ends_with("tool_name: Field required"), "{nameless}");
}
