use serde_json::{Value, json};

use super::{assistant, call, refusal, request, result, tool, user};

fn with_tool(tool: impl Into<Value>) -> String {
    refusal(&request(&json!({ "tools": [tool.into()] })))
}

#[test]
fn a_definition_has_a_good_name_and_an_object_schema() {
    let pattern = "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'";
    let schema = json!({ "type": "object" });
    for (tool, expected) in [
        (json!({ "input_schema": schema }), "tools.0.custom.name: Field required"),
        (json!({ "name": "a b", "input_schema": schema }), pattern),
        (json!({ "name": "", "input_schema": schema }), pattern),
        (json!({ "name": "a".repeat(65), "input_schema": schema }), pattern),
        (json!({ "name": "a" }), "tools.0.custom.input_schema: Field required"),
        (
            json!({ "name": "a", "input_schema": {} }),
            "tools.0.custom.input_schema.type: Field required",
        ),
        (
            json!({ "name": "a", "input_schema": { "type": "array" } }),
            "tools.0.custom.input_schema.type: Input should be 'object'",
        ),
        (
            json!({ "name": "a", "input_schema": schema, "parameters": {} }),
            "tools.0.custom.parameters: Extra inputs are not permitted",
        ),
    ] {
        assert_eq!(with_tool(tool), expected);
    }
    assert_eq!(with_tool(tool(&"a".repeat(64))), "");
    assert_eq!(with_tool(json!({ "type": "web_search_20260318", "name": "web_search" })), "");
}

#[test]
fn tool_names_are_unique() {
    let twice = request(&json!({ "tools": [tool("a"), tool("a")] }));
    assert_eq!(refusal(&twice), "tools: Tool names must be unique.");
    assert_eq!(refusal(&request(&json!({ "tools": [tool("a"), tool("b")] }))), "");
}

#[test]
fn tool_choice_needs_tools_and_names_one_of_them() {
    let choose =
        |choice: Value| refusal(&request(&json!({ "tools": [tool("a")], "tool_choice": choice })));
    for kind in ["auto", "any", "none"] {
        assert_eq!(choose(json!({ "type": kind })), "");
    }
    assert_eq!(choose(json!({ "type": "tool", "name": "a" })), "");
    let unknown = "Tool 'b' not found in provided tools";
    assert_eq!(choose(json!({ "type": "tool", "name": "b" })), unknown);
    assert_eq!(choose(json!({ "type": "tool" })), "tool_choice.tool.name: Field required");
    assert!(choose(json!({ "type": "all" })).starts_with("tool_choice: Input tag 'all' found"));
    let alone = request(&json!({ "tool_choice": { "type": "auto" } }));
    let expected = "tool_choice: tool_choice may only be specified while providing tools";
    assert_eq!(refusal(&alone), expected);
}

#[test]
fn tool_choice_has_only_the_members_of_its_type() {
    let choose =
        |choice: Value| refusal(&request(&json!({ "tools": [tool("a")], "tool_choice": choice })));
    let one = |kind: &str, value: Value| {
        choose(json!({ "type": kind, "name": "a", "disable_parallel_tool_use": value }))
    };
    assert_eq!(one("tool", json!(true)), "");
    let extra = "tool_choice.any.name: Extra inputs are not permitted";
    assert_eq!(one("any", json!(true)), extra);
    let forbidden = json!({ "type": "none", "disable_parallel_tool_use": true });
    let extra = "tool_choice.none.disable_parallel_tool_use: Extra inputs are not permitted";
    assert_eq!(choose(forbidden), extra);
    let wrong = "tool_choice.tool.disable_parallel_tool_use: Input should be a valid boolean";
    assert_eq!(one("tool", json!("yes")), wrong);
}

#[test]
fn newer_models_and_budgeted_thinking_refuse_a_forced_tool() {
    let expected = "tool_choice: type \"tool\" and \"any\" are not supported for this model.";
    for choice in [json!({ "type": "any" }), json!({ "type": "tool", "name": "a" })] {
        let on = |model: &str| {
            refusal(&request(&json!({
                "model": model, "tools": [tool("a")], "tool_choice": choice })))
        };
        let newer = ["claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-1"];
        for model in newer.into_iter().chain(["claude-mythos-preview", "claude-mythos-5-2"]) {
            assert_eq!(on(model), expected, "{model}");
        }
        for model in ["simulator", "claude-opus-5", "claude-sonnet-4-6", "claude-fable-5"] {
            assert_eq!(on(model), "", "{model}");
        }
        let thinking = request(&json!({
            "max_tokens": 5000, "tools": [tool("a")], "tool_choice": choice,
            "thinking": { "type": "enabled", "budget_tokens": 2000 } }));
        let forced = "Thinking may not be enabled when tool_choice forces tool use.";
        assert_eq!(refusal(&thinking), forced);
        let thinking = request(&json!({
            "model": "claude-opus-4-8", "tools": [tool("a")], "tool_choice": choice,
            "thinking": { "type": "adaptive" } }));
        assert_eq!(refusal(&thinking), forced);
    }
}

#[test]
fn a_history_with_tool_blocks_needs_tools() {
    let messages = json!([user("a"), assistant(json!([call("t")])), user(json!([result("t")]))]);
    let expected = "Requests which include `tool_use` or `tool_result` blocks must define tools.";
    assert_eq!(refusal(&request(&json!({ "messages": messages }))), expected);
    assert_eq!(refusal(&request(&json!({ "messages": messages, "tools": [tool("a")] }))), "");
}
