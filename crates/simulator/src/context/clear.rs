//! The edits that clear thinking and tool results.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{size_of, tokens_between};
use crate::models::{CLEAR_THINKING, CLEAR_TOOL_USES, Model};
use crate::request::{ApiRequest, ContentBlock, blocks, role};

/// The replacement for the content of a cleared tool result.
const PLACEHOLDER: &str = "[Old tool result content cleared]";

/// Default trigger of the edit for tool results, in tokens.
const DEFAULT_TRIGGER: usize = 100_000;
/// Default number of tool results to keep.
const DEFAULT_KEEP: usize = 3;

/// The result of an edit.
#[derive(Debug)]
pub(super) struct Cleared {
    pub(super) messages: Vec<Value>,
    /// The name of the field that reports the number of cleared items.
    pub(super) what: &'static str,
    pub(super) count: usize,
}

/// Applies an edit to a request with `tokens` tokens. Returns `None` if nothing changes.
pub(super) fn edit(edit: &Value, request: ApiRequest<'_>, tokens: usize) -> Option<Cleared> {
    match edit.get("type")?.as_str()? {
        CLEAR_THINKING => thinking(edit, request),
        CLEAR_TOOL_USES => tool_uses(edit, request.messages(), tokens),
        _ => None,
    }
}

fn thinking(edit: &Value, request: ApiRequest<'_>) -> Option<Cleared> {
    let keep = match edit.get("keep") {
        None | Some(Value::Null) if Model::find(request.model())?.keeps_thinking() => return None,
        None | Some(Value::Null) => 1,
        Some(keep) => amount(keep, "thinking_turns")?,
    };
    let messages = request.messages();
    let turns = turns(messages);
    let mut with_thinking: Vec<usize> =
        messages.iter().zip(&turns).filter(|(m, _)| thinks(m)).map(|(_, turn)| *turn).collect();
    with_thinking.dedup();
    with_thinking.truncate(with_thinking.len().saturating_sub(keep));
    if with_thinking.is_empty() {
        return None;
    }
    let mut messages = messages.to_vec();
    for (message, turn) in messages.iter_mut().zip(turns) {
        if with_thinking.contains(&turn)
            && let Some(Value::Array(content)) = message.get_mut("content")
        {
            content.retain(|block| !is_thinking(ContentBlock::Json(block)));
        }
    }
    Some(Cleared { messages, what: "cleared_thinking_turns", count: with_thinking.len() })
}

/// Numbers the turn of each message. Calls and their results do not end a turn.
fn turns(messages: &[Value]) -> Vec<usize> {
    let mut turn = 0;
    let mut numbered = |message: &Value| {
        let asks = blocks(message).any(|block| !block.is("tool_result"));
        turn += usize::from(role(message) == "user" && asks);
        turn
    };
    messages.iter().map(&mut numbered).collect()
}

fn thinks(message: &Value) -> bool {
    blocks(message).any(is_thinking)
}

fn is_thinking(block: ContentBlock<'_>) -> bool {
    matches!(block.kind(), "thinking" | "redacted_thinking")
}

fn tool_uses(edit: &Value, messages: &[Value], tokens: usize) -> Option<Cleared> {
    let results = messages.iter().flat_map(blocks).filter(|block| block.is("tool_result"));
    let results: Vec<&str> = results.filter_map(|result| result.str("tool_use_id")).collect();
    let is_due = match edit.get("trigger").and_then(|trigger| amount(trigger, "tool_uses")) {
        Some(calls) => results.len() >= calls,
        None => tokens >= amount_of(edit, "trigger", "input_tokens").unwrap_or(DEFAULT_TRIGGER),
    };
    let keep = amount_of(edit, "keep", "tool_uses").unwrap_or(DEFAULT_KEEP);
    let excluded = excluded(edit, messages);
    let old = results.len().saturating_sub(keep);
    let cleared: HashSet<&str> =
        results.into_iter().take(old).filter(|id| !excluded.contains(id)).collect();
    if !is_due || cleared.is_empty() {
        return None;
    }
    let edited = without(messages, &cleared, &edit["clear_tool_inputs"]);
    let least = amount_of(edit, "clear_at_least", "input_tokens").unwrap_or(0);
    if tokens_between(size_of(&edited), size_of(messages)) < least {
        return None;
    }
    Some(Cleared { messages: edited, what: "cleared_tool_uses", count: cleared.len() })
}

/// Returns the messages without the results of these calls, and without the inputs of all of them
/// or of those to the named tools.
fn without(messages: &[Value], calls: &HashSet<&str>, inputs: &Value) -> Vec<Value> {
    let has_cleared_input = |call: &Value| match inputs.as_array() {
        Some(names) => names.contains(&call["name"]),
        None => *inputs == true,
    };
    let mut messages = messages.to_vec();
    let contents = messages.iter_mut().filter_map(|message| message.get_mut("content"));
    for block in contents.filter_map(Value::as_array_mut).flatten() {
        let is = |field: &str| block[field].as_str().is_some_and(|id| calls.contains(id));
        match block["type"].as_str() {
            Some("tool_result") if is("tool_use_id") => block["content"] = PLACEHOLDER.into(),
            Some("tool_use") if is("id") && has_cleared_input(block) => block["input"] = json!({}),
            _ => {}
        }
    }
    messages
}

/// Returns the calls of the tools that the edit excludes.
fn excluded<'a>(edit: &Value, messages: &'a [Value]) -> HashSet<&'a str> {
    let names = edit.get("exclude_tools").and_then(Value::as_array);
    let names: Vec<&str> = names.into_iter().flatten().filter_map(Value::as_str).collect();
    let calls = messages.iter().flat_map(blocks).filter(|block| block.is("tool_use"));
    let calls = calls.filter(|call| call.str("name").is_some_and(|name| names.contains(&name)));
    calls.filter_map(|call| call.str("id")).collect()
}

fn amount_of(edit: &Value, field: &str, kind: &str) -> Option<usize> {
    amount(edit.get(field)?, kind)
}

/// Returns the `value` of an object with this `type`.
fn amount(amount: &Value, kind: &str) -> Option<usize> {
    let value = amount.get("value").filter(|_| amount.get("type").is_some_and(|of| of == kind))?;
    usize::try_from(value.as_u64()?).ok()
}
