//! The events that tell of a reply.

use crate::domain::context::SummedUp;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::message::{BadContent, Content, View};
use crate::domain::permission::Permission;
use crate::domain::tool::ToolCall;
use crate::worker::model_call::previews::ReplyIds;
use crate::worker::run::stop_cause::Halt;

/// What was thought, what was said, and what is asked for.
pub(in crate::worker) fn reply_events(
    content: &Content,
    ids: ReplyIds,
    asked: Vec<NewEvent>,
) -> Result<Vec<NewEvent>, Halt> {
    let blocks = content.blocks()?;
    let mut events = Vec::new();
    let thoughts: Vec<&str> = blocks
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
    if !thoughts.is_empty() {
        let content = texts(&thoughts)?;
        let body = EventBody::AgentThinking { content };
        events.push(NewEvent::with_id(ids.thinking.to_string(), &body));
    }
    let is_text = |view: &View<'_>| matches!(view, View::Text(_));
    let said: Vec<_> =
        blocks.iter().filter(|block| is_text(&block.view)).map(|block| block.raw).collect();
    if !said.is_empty() {
        let body = EventBody::AgentMessage { content: Content::from_blocks(said)? };
        events.push(NewEvent::with_id(ids.message.to_string(), &body));
    }
    events.extend(asked);
    Ok(events)
}

/// The model's side summed up what it was sent, by itself.
pub(in crate::worker) fn summed_up(told: SummedUp) -> NewEvent {
    let SummedUp { tokens_before, tokens_after, usage: _ } = told;
    NewEvent::new(&EventBody::ContextCompacted { tokens_before, tokens_after, up_to: None })
}

/// What is asked for; without a permission the client runs it.
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
