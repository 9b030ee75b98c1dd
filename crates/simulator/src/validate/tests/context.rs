use serde_json::{Value, json};

use super::{betas, request, rules, verdict};
use crate::validate::Rules;

const ALL: &str = "context-management-2025-06-27,compact-2026-01-12";

fn on(betas_named: &str, model: &str, setting: &Value) -> String {
    let body = request(&json!({ "model": model, "context_management": setting }));
    let rules = Rules { betas: betas(betas_named), ..rules() };
    verdict(&body, &rules).err().map_or_else(String::new, |refusal| refusal.message)
}

/// The refusal of these edits.
fn edits(edits: &[Value]) -> String {
    on(ALL, "simulator", &json!({ "edits": edits }))
}

#[test]
fn edits_take_their_documented_fields() {
    let thinking = json!({
        "type": "clear_thinking_20251015", "keep": { "type": "thinking_turns", "value": 2 } });
    let tool_uses = json!({
        "type": "clear_tool_uses_20250919", "trigger": { "type": "tool_uses", "value": 10 },
        "keep": { "type": "tool_uses", "value": 0 }, "exclude_tools": ["a"],
        "clear_at_least": { "type": "input_tokens", "value": 5000 }, "clear_tool_inputs": true });
    let compact = json!({
        "type": "compact_20260112", "trigger": { "type": "input_tokens", "value": 50_000 },
        "pause_after_compaction": true, "instructions": "Be brief." });
    assert_eq!(edits(&[thinking, tool_uses, compact]), "");
    for kind in ["clear_thinking_20251015", "clear_tool_uses_20250919", "compact_20260112"] {
        assert_eq!(edits(&[json!({ "type": kind })]), "");
    }
    for inputs in [json!(false), json!(["a"])] {
        let uses = json!({ "type": "clear_tool_uses_20250919", "clear_tool_inputs": inputs });
        assert_eq!(edits(&[uses]), "");
    }
    for keep in [json!("all"), json!({ "type": "all" })] {
        assert_eq!(edits(&[json!({ "type": "clear_thinking_20251015", "keep": keep })]), "");
    }
}

#[test]
fn a_malformed_edit_is_named() {
    let uses =
        |field: &str, value: Value| json!({ "type": "clear_tool_uses_20250919", field: value });
    let compact = |field: &str, value: Value| json!({ "type": "compact_20260112", field: value });
    let few = json!({ "type": "input_tokens", "value": 49_999 });
    let none = json!({ "type": "thinking_turns", "value": 0 });
    for (edit, expected) in [
        (json!(1), ": Input should be a valid dictionary"),
        (json!({}), ".type: Field required"),
        (
            json!({ "type": "drop" }),
            ": Input tag 'drop' found using 'type' does not match any of the expected tags: \
             'clear_thinking_20251015', 'clear_tool_uses_20250919', 'compact_20260112'",
        ),
        (
            json!({ "type": "clear_thinking_20251015", "keep": none }),
            ".clear_thinking_20251015.keep.thinking_turns.value: Input should be greater than or \
             equal to 1",
        ),
        (
            json!({ "type": "clear_thinking_20251015", "trigger": {} }),
            ".clear_thinking_20251015.trigger: Extra inputs are not permitted",
        ),
        (
            uses("trigger", json!({ "type": "turns", "value": 1 })),
            ".clear_tool_uses_20250919.trigger.type: Input should be 'input_tokens' or 'tool_uses'",
        ),
        (
            uses("keep", json!({ "type": "tool_uses" })),
            ".clear_tool_uses_20250919.keep.tool_uses.value: Field required",
        ),
        (
            uses("keep", json!({ "type": "tool_uses", "value": "3" })),
            ".clear_tool_uses_20250919.keep.tool_uses.value: Input should be a valid integer",
        ),
        (
            uses("exclude_tools", json!("a")),
            ".clear_tool_uses_20250919.exclude_tools: Input should be a valid list",
        ),
        (
            uses("clear_tool_inputs", json!(1)),
            ".clear_tool_uses_20250919.clear_tool_inputs: Input should be a valid boolean",
        ),
        (
            uses("clear_tool_inputs", json!([1])),
            ".clear_tool_uses_20250919.clear_tool_inputs: Input should be a valid boolean",
        ),
        (compact("trigger", few), ".compact_20260112: trigger.value must be at least 50000"),
        (
            compact("instructions", json!(1)),
            ".compact_20260112.instructions: Input should be a valid string",
        ),
        (compact("keep", json!(1)), ".compact_20260112.keep: Extra inputs are not permitted"),
    ] {
        assert_eq!(edits(&[edit]), format!("context_management.edits.0{expected}"));
    }
}

#[test]
fn the_setting_is_an_object_of_edits_and_nothing_else() {
    let odd = |setting: Value| on(ALL, "simulator", &setting);
    for fine in [json!(null), json!({}), json!({ "edits": [] })] {
        assert_eq!(odd(fine), "");
    }
    assert_eq!(odd(json!([])), "context_management: Input should be a valid dictionary");
    assert_eq!(
        odd(json!({ "edits": {} })),
        "context_management.edits: Input should be a valid list"
    );
    assert_eq!(odd(json!({ "a": 1 })), "context_management.a: Extra inputs are not permitted");
}

#[test]
fn each_edit_is_listed_once_and_the_one_for_thinking_first() {
    let [thinking, uses] =
        ["clear_thinking_20251015", "clear_tool_uses_20250919"].map(|kind| json!({ "type": kind }));
    assert_eq!(edits(&[thinking.clone(), uses.clone()]), "");
    assert_eq!(
        edits(&[uses.clone(), thinking]),
        "context_management: `clear_thinking_20251015` must be the first strategy in \
         `context_management.edits` when provided"
    );
    assert_eq!(
        edits(&[uses.clone(), uses]),
        "context_management.edits.1: clear_tool_uses_20250919 may be listed only once"
    );
}

#[test]
fn an_edit_needs_its_feature_and_a_model_that_supports_it() {
    let clear = json!({ "edits": [{ "type": "clear_tool_uses_20250919" }] });
    let compact = json!({ "edits": [{ "type": "compact_20260112" }] });
    let (clearing, compacting) = ("context-management-2025-06-27", "compact-2026-01-12");
    assert_eq!(on(clearing, "simulator", &clear), "");
    assert_eq!(on(compacting, "simulator", &compact), "");
    assert_eq!(on(compacting, "simulator", &clear), "", "what sums up has the others as well");
    assert_eq!(
        on(clearing, "simulator", &compact),
        "context_management.edits.0: Input tag 'compact_20260112' found using 'type' does not \
         match any of the expected tags: 'clear_thinking_20251015', 'clear_tool_uses_20250919'"
    );
    let unsupported = "context_management is not supported by this model";
    let unsummed = "context_management: `compact_20260112` is not supported by this model";
    for (model, clears, compacts) in [
        ("claude-3-5-sonnet-20241022", unsupported, unsupported),
        ("claude-haiku-4-5", "", unsummed),
        ("claude-opus-4-5", "", unsummed),
        ("claude-opus-4-6", "", ""),
        ("claude-haiku-5-5", "", ""),
    ] {
        assert_eq!(on(ALL, model, &clear), clears, "{model}");
        assert_eq!(on(ALL, model, &compact), compacts, "{model}");
    }
}

#[test]
fn clearing_thinking_needs_thinking() {
    let edits = json!({ "edits": [{ "type": "clear_thinking_20251015" }] });
    let with = |model: &str, thinking: &Value| {
        let mut body = request(&json!({ "model": model, "max_tokens": 2000,
                                        "context_management": edits }));
        if !thinking.is_null() {
            body["thinking"] = thinking.clone();
        }
        let rules = Rules { betas: betas(ALL), ..rules() };
        verdict(&body, &rules).err().map_or_else(String::new, |refusal| refusal.message)
    };
    let off = "`clear_thinking_20251015` strategy requires `thinking` to be enabled or adaptive";
    let disabled = json!({ "type": "disabled" });
    for (model, thinking, expected) in [
        ("claude-haiku-4-5", json!(null), off),
        ("claude-opus-4-6", json!(null), off),
        ("claude-opus-4-6", disabled.clone(), off),
        ("claude-opus-4-6", json!({ "type": "adaptive" }), ""),
        ("claude-haiku-4-5", json!({ "type": "enabled", "budget_tokens": 1024 }), ""),
        ("claude-opus-5", json!(null), ""),
        ("claude-opus-5", disabled.clone(), off),
        ("claude-opus-5-5", json!(null), ""),
        ("simulator", json!(null), ""),
        ("simulator", disabled, off),
    ] {
        assert_eq!(with(model, &thinking), expected, "{model} {thinking}");
    }
}
