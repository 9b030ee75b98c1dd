//! Checks of imported assistant messages.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::domain::call_syntax::{MAX_WORD, is_word};
use crate::domain::message::{Block, View};
use crate::service::error::FieldError;
use crate::service::session_settings::is_readable_object;

#[derive(Deserialize)]
struct TypedBlock<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

/// The problems with the blocks of a reply at this pointer. Valid blocks are stored unchanged.
pub(super) fn problems(content: &RawValue, pointer: &str) -> Vec<FieldError> {
    let Ok(blocks) = serde_json::from_str::<Vec<&RawValue>>(content.get()) else {
        return vec![FieldError::new(pointer, "is not an array of blocks")];
    };
    if blocks.is_empty() {
        return vec![FieldError::new(pointer, "is empty")];
    }
    let problem = |(index, block): (usize, &&RawValue)| {
        let problem = problem(block)?;
        Some(FieldError::new(format!("{pointer}/{index}"), problem))
    };
    let problems: Vec<FieldError> = blocks.iter().enumerate().filter_map(problem).collect();
    if problems.is_empty() && blocks.iter().all(|block| is_thinking(block)) {
        return vec![FieldError::new(pointer, "has only thinking blocks")];
    }
    problems
}

fn is_thinking(raw: &RawValue) -> bool {
    let view = Block::view(raw).map(|block| block.view);
    matches!(view, Ok(View::Thinking(_) | View::RedactedThinking))
}

fn problem(raw: &RawValue) -> Option<&'static str> {
    if !is_readable_object(raw.get()) {
        return Some("is not an object, or is nested deeper than 64");
    }
    let Ok(TypedBlock { kind }) = serde_json::from_str(raw.get()) else {
        return Some("has no `type`");
    };
    let is_known = matches!(
        kind.as_ref(),
        "text" | "thinking" | "redacted_thinking" | "tool_use" | "server_tool_use" | "compaction"
    ) || kind.ends_with("_tool_result");
    if !is_known {
        return Some("has a type that does not occur in replies");
    }
    let Ok(members) = serde_json::from_str::<Map<String, Value>>(raw.get()) else {
        return Some("has a string that is not valid Unicode");
    };
    if has_unknown_member(&kind, &members) {
        return Some("has a member that the model's API refuses in a block of this type");
    }
    let has = |name: &str| members.get(name).is_some_and(Value::is_string);
    let Ok(Block { view, .. }) = Block::view(raw) else {
        return Some("lacks a required member of its type");
    };
    match view {
        View::Text(text) => text.trim().is_empty().then_some("is blank"),
        View::Thinking(_) if !has("thinking") => Some("has no thinking"),
        View::Thinking(_) => (!has("signature")).then_some("has no signature"),
        View::RedactedThinking => (!has("data")).then_some("has no data"),
        View::ToolUse(call) => {
            let is_object = members.get("input").is_some_and(Value::is_object);
            if !is_name(&call.id) {
                Some("has an id that is not 1 to 128 of letters, digits, '_' and '-'")
            } else if !is_name(&call.name) {
                Some("has a name that is not 1 to 128 of letters, digits, '_' and '-'")
            } else {
                (!is_object).then_some("has an input that is not an object")
            }
        }
        View::ServerToolUse { id } => (!is_name(&id))
            .then_some("has an id that is not 1 to 128 of letters, digits, '_' and '-'"),
        View::ToolResult { .. } => Some("has a type that does not occur in replies"),
        View::Other { tool_use_id } => {
            (kind != "compaction" && tool_use_id.is_none()).then_some("has no `tool_use_id`")
        }
    }
}

/// Returns true if the block has a member for which the model's API would refuse every request with
/// it. Cache markers are not stored: they are set when a request is sent.
fn has_unknown_member(kind: &str, members: &Map<String, Value>) -> bool {
    let known: &[&str] = match kind {
        "text" => &["type", "text", "citations"],
        "thinking" => &["type", "thinking", "signature"],
        "redacted_thinking" => &["type", "data"],
        "tool_use" => &["type", "id", "name", "input", "caller", "toolset_name"],
        _ => return members.contains_key("cache_control"),
    };
    !members.keys().all(|name| known.contains(&name.as_str()))
}

fn is_name(name: &str) -> bool {
    is_word(name, MAX_WORD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_block_that_does_not_occur_in_replies_is_refused() {
        let call = |id: &str, name: &str, input: Value| json!({ "type": "tool_use", "id": id, "name": name, "input": input });
        for (block, is_valid) in [
            (json!({ "type": "text", "text": "a" }), true),
            (json!({ "type": "text", "text": "a", "citations": null }), true),
            (json!({ "type": "text", "text": "a", "colour": "red" }), false),
            (json!({ "type": "text", "text": "a", "cache_control": null }), false),
            (json!({ "type": "text", "text": " \n" }), false),
            (json!({ "type": "thinking", "thinking": "", "signature": "s" }), true),
            (json!({ "type": "thinking", "thinking": "Hm.", "signature": "" }), true),
            (json!({ "type": "thinking", "thinking": "Hm." }), false),
            (json!({ "type": "thinking", "thinking": "Hm.", "signature": null }), false),
            (json!({ "type": "thinking", "signature": "s" }), false),
            (json!({ "type": "redacted_thinking", "data": "x" }), true),
            (json!({ "type": "redacted_thinking" }), false),
            (call("toolu_1", "Read", json!({})), true),
            (call("toolu 1", "Read", json!({})), false),
            (call("toolu_1", "", json!({})), false),
            (call("toolu_1", "Read", json!([])), false),
            (json!({ "type": "server_tool_use", "id": "s_1", "name": "a", "input": {} }), true),
            (
                json!({ "type": "web_search_tool_result", "tool_use_id": "s_1", "content": [] }),
                true,
            ),
            (json!({ "type": "web_search_tool_result", "content": [] }), false),
            (
                json!({ "type": "compaction", "content": "a",
                        "cache_control": { "type": "ephemeral" } }),
                false,
            ),
            (json!({ "type": "tool_result", "tool_use_id": "a" }), false),
            (json!({ "type": "image", "source": {} }), false),
            (json!("text"), false),
            (json!({}), false),
        ] {
            let raw = serde_json::value::to_raw_value(&block).unwrap();
            assert_eq!(problem(&raw).is_none(), is_valid, "{block}");
        }
    }

    #[test]
    fn an_error_has_the_pointer_of_its_block() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let pointers = |text: &str| -> Vec<String> {
            problems(&raw(text), "/c").into_iter().map(|error| error.pointer).collect()
        };
        assert_eq!(pointers(r#"[{"type":"text","text":"a"},{"type":"x"},1]"#), ["/c/1", "/c/2"]);
        assert_eq!(pointers(r#"[{"type":"redacted_thinking","data":"x"}]"#), ["/c"]);
        assert_eq!(pointers("[]"), ["/c"]);
        assert_eq!(pointers(r#""a""#), ["/c"]);
    }
}
