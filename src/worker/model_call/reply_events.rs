//! The events that report a reply.

use super::parameters::ReplyIds;
use crate::domain::context::ReplyCompaction;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::message::{BadContent, Content, Message, View};
use crate::domain::permission::Permission;
use crate::domain::stop_reason::ModelStop;
use crate::domain::tool::ToolCall;
use crate::worker::run::stop_cause::StopCause;

/// The events of a reply: of a compaction on the model's side, of thinking, of text and of calls, in
/// this order.
pub(in crate::worker) fn reply_events(
    message: &Message,
    message_id: &str,
    compaction: Option<ReplyCompaction>,
    ids: ReplyIds,
    calls: Vec<NewEvent>,
) -> Result<Vec<NewEvent>, StopCause> {
    let message_id = || Some(message_id.to_owned());
    let blocks = message.content.blocks()?;
    // The summary of a refused draft is dropped together with it.
    let has_summary = message.content.summary()?.is_some();
    let compacted = compaction.filter(|_| has_summary).map(compacted_event);
    let mut events: Vec<NewEvent> = compacted.into_iter().collect();
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
        let body = EventBody::AgentThinking { content, message_id: message_id() };
        events.push(NewEvent::with_id(ids.thinking.to_string(), &body));
    }
    let is_text = |view: &View<'_>| matches!(view, View::Text(_));
    let text_blocks: Vec<_> =
        blocks.iter().filter(|block| is_text(&block.view)).map(|block| block.raw).collect();
    if !text_blocks.is_empty() {
        let content = Content::from_blocks(text_blocks)?;
        let interrupted = message.stop_reason == Some(ModelStop::Interrupted);
        let body = EventBody::AgentMessage { content, interrupted, message_id: message_id() };
        events.push(NewEvent::with_id(ids.message.to_string(), &body));
    }
    events.extend(calls);
    Ok(events)
}

/// The event of a compaction that the model's server made within a request.
fn compacted_event(summary: ReplyCompaction) -> NewEvent {
    let ReplyCompaction { tokens_before, tokens_after, usage: _ } = summary;
    NewEvent::new(&EventBody::ContextCompacted { tokens_before, tokens_after, up_to: None })
}

/// The event of a call. Without a permission, the client executes the call.
pub(in crate::worker) fn call_event(
    call: &ToolCall,
    message_id: &str,
    permission: Option<Permission>,
) -> NewEvent {
    let (name, input) = (call.name.clone(), call.input.clone());
    let message_id = Some(message_id.to_owned());
    let body = match permission {
        Some(evaluated_permission) => {
            EventBody::AgentToolUse { name, input, evaluated_permission, message_id }
        }
        None => EventBody::AgentCustomToolUse { name, input, message_id },
    };
    NewEvent::with_id(call.tool_use_id.clone(), &body)
}

fn texts(texts: &[&str]) -> Result<Content, BadContent> {
    let blocks: Vec<_> =
        texts.iter().map(|text| serde_json::json!({ "type": "text", "text": text })).collect();
    Content::parse(serde_json::Value::from(blocks).to_string())
}
