//! The events that report a reply.

use super::parameters::ReplyIds;
use crate::domain::context::ReplyCompaction;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::message::{BadContent, Content, View};
use crate::domain::permission::Permission;
use crate::domain::tool::ToolCall;
use crate::worker::run::stop_cause::StopCause;

/// The events of thinking, of text and of calls, in this order.
pub(in crate::worker) fn reply_events(
    content: &Content,
    ids: ReplyIds,
    calls: Vec<NewEvent>,
) -> Result<Vec<NewEvent>, StopCause> {
    let blocks = content.blocks()?;
    let mut events = Vec::new();
    let thinking: Vec<&str> = blocks
        .iter()
        .filter_map(|block| match &block.view {
            View::Thinking(text) => Some(text.as_ref()),
            View::Text(_)
            | View::RedactedThinking
            | View::ToolUse(_)
            | View::ToolResult { .. }
            | View::ServerToolUse { .. }
            | View::Other { .. } => None,
        })
        .collect();
    if !thinking.is_empty() {
        let content = texts(&thinking)?;
        let body = EventBody::AgentThinking { content };
        events.push(NewEvent::with_id(ids.thinking.to_string(), &body));
    }
    let is_text = |view: &View<'_>| matches!(view, View::Text(_));
    let text_blocks: Vec<_> =
        blocks.iter().filter(|block| is_text(&block.view)).map(|block| block.raw).collect();
    if !text_blocks.is_empty() {
        let body = EventBody::AgentMessage { content: Content::from_blocks(text_blocks)? };
        events.push(NewEvent::with_id(ids.message.to_string(), &body));
    }
    events.extend(calls);
    Ok(events)
}

/// The event of a compaction that the model's server made within a request.
pub(in crate::worker) fn compacted_event(summary: ReplyCompaction) -> NewEvent {
    let ReplyCompaction { tokens_before, tokens_after, usage: _ } = summary;
    NewEvent::new(&EventBody::ContextCompacted { tokens_before, tokens_after, up_to: None })
}

/// The event of a call. Without a permission, the client executes the call.
pub(in crate::worker) fn call_event(call: &ToolCall, permission: Option<Permission>) -> NewEvent {
    let (name, input) = (call.name.clone(), call.input.clone());
    let body = match permission {
        Some(evaluated_permission) => EventBody::AgentToolUse { name, input, evaluated_permission },
        None => EventBody::AgentCustomToolUse { name, input },
    };
    NewEvent::with_id(call.tool_use_id.clone(), &body)
}

fn texts(texts: &[&str]) -> Result<Content, BadContent> {
    let blocks: Vec<_> =
        texts.iter().map(|text| serde_json::json!({ "type": "text", "text": text })).collect();
    Content::parse(serde_json::Value::from(blocks).to_string())
}
