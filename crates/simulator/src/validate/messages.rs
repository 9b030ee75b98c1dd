//! The rules for a single message, the order of roles, and the first and last message.

use serde_json::Value;

use super::{Checked, Rules, blocks, refuse};
use crate::models::{COMPACT, Model};
use crate::request::{self, ApiRequest, ContentBlock, LocatedBlock, Turn, role};

/// Checks the role, content and blocks of every message.
pub(super) fn check(request: ApiRequest<'_>, model: Model<'_>, rules: &Rules) -> Checked {
    let messages = request.messages();
    for (at, message) in messages.iter().enumerate() {
        shape(at, message, rules)?;
        match role(message) {
            "user" | "assistant" => {}
            "system" => system(at, messages, model)?,
            other => return refuse(format!("messages: Unexpected role \"{other}\".")),
        }
        blocks::check(at, message, rules)?;
    }
    let is_summary = |first: &Value| first_block(first).is_some_and(|block| block.is("compaction"));
    if messages.first().is_some_and(|first| role(first) != "user" && !is_summary(first)) {
        return refuse("messages: first message must use the \"user\" role");
    }
    Ok(())
}

fn first_block(message: &Value) -> Option<ContentBlock<'_>> {
    request::blocks(message).next()
}

fn shape(at: usize, message: &Value, rules: &Rules) -> Checked {
    let Some(fields) = message.as_object() else {
        return refuse(format!("messages.{at}: Input should be a valid dictionary"));
    };
    for field in ["role", "content"] {
        if !fields.contains_key(field) {
            return refuse(format!("messages.{at}.{field}: Field required"));
        }
    }
    match fields.keys().find(|field| *field != "role" && *field != "content") {
        Some(field) if rules.refuse_unknown_fields => {
            refuse(format!("messages.{at}.{field}: Extra inputs are not permitted"))
        }
        _ => empty(at, fields.get("content")),
    }
}

fn empty(at: usize, content: Option<&Value>) -> Checked {
    match content {
        Some(Value::String(text)) if text.is_empty() => {}
        Some(Value::Array(blocks)) if blocks.is_empty() => {}
        Some(Value::String(_) | Value::Array(_)) => return Ok(()),
        _ => {
            return refuse(format!("messages.{at}.content: Input should be a valid list"));
        }
    }
    refuse(format!(
        "messages.{at}: all messages must have non-empty content except for the optional final \
         assistant message"
    ))
}

/// A system message follows a user message, and it is the last one or precedes an assistant
/// message.
fn system(at: usize, messages: &[Value], model: Model<'_>) -> Checked {
    if !model.takes_system_messages() {
        return refuse(
            "messages: Unexpected role \"system\". The Messages API accepts a top-level `system` \
             parameter, not \"system\" as an input message role.",
        );
    }
    let before = at.checked_sub(1).and_then(|before| messages.get(before)).map(role);
    let after = messages.get(at + 1).map(role);
    if before != Some("user") || after.is_some_and(|after| after != "assistant") {
        return refuse(format!(
            "messages.{at}: a `system` message must follow a user message and be the last or be \
             followed by an assistant message"
        ));
    }
    Ok(())
}

/// The last turn is the user's, except after a pause in a server tool call or after an automatic
/// summary.
pub(super) fn ending(request: ApiRequest<'_>, turns: &[Turn<'_>]) -> Checked {
    let goes_on = |turn: &Turn<'_>| {
        let is_summed_up = request.edit(COMPACT).is_some() && ends_with_summary(turn);
        turn.role != "assistant" || is_paused(&turn.blocks) || is_summed_up
    };
    if turns.last().is_none_or(goes_on) {
        return Ok(());
    }
    refuse(
        "This model does not support assistant message prefill. The conversation must end with a \
         user message.",
    )
}

fn ends_with_summary(turn: &Turn<'_>) -> bool {
    let is_unsigned =
        |block: ContentBlock<'_>| block.is("compaction") && block.get("signature").is_none();
    turn.blocks.last().is_some_and(|located| is_unsigned(located.block))
}

/// True if a server tool call has no result yet.
pub(super) fn is_paused(blocks: &[LocatedBlock<'_>]) -> bool {
    let results = |id: &str| {
        let mut ids = blocks.iter().filter_map(|located| located.block.str("tool_use_id"));
        ids.any(|answered| answered == id)
    };
    blocks.iter().any(|located| {
        located.block.is("server_tool_use") && !located.block.str("id").is_some_and(results)
    })
}
