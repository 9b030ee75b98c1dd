//! The events of an imported history.

use serde_json::json;

use crate::domain::event::{EventBody, NewEvent};
use crate::domain::message::{BadContent, Content, View};
use crate::domain::stop_reason::{ModelStop, StopReason};
use crate::domain::tool::ToolCall;
use crate::domain::tool_error::{Handling, ToolErrorType};

/// The events of a reply that ended for this reason: its thinking, and its text.
pub(super) fn reply_events(
    content: &Content,
    stop: &ModelStop,
    message_id: &str,
) -> Result<Vec<NewEvent>, BadContent> {
    let message_id = || Some(message_id.to_owned());
    let (mut thinking, mut texts) = (Vec::new(), Vec::new());
    for block in content.blocks()? {
        match block.view {
            View::Thinking(text) => thinking.push(json!({ "type": "text", "text": text })),
            View::Text(_) => texts.push(block.raw),
            View::RedactedThinking
            | View::ToolUse(_)
            | View::ToolResult { .. }
            | View::ServerToolUse { .. }
            | View::Other { .. } => {}
        }
    }
    let mut events = Vec::new();
    if !thinking.is_empty() {
        let content = Content::parse(serde_json::Value::from(thinking).to_string())?;
        events.push(NewEvent::new(&EventBody::AgentThinking { content, message_id: message_id() }));
    }
    if !texts.is_empty() {
        let content = Content::from_blocks(texts)?;
        let interrupted = *stop == ModelStop::Interrupted;
        let body = EventBody::AgentMessage { content, interrupted, message_id: message_id() };
        events.push(NewEvent::new(&body));
    }
    Ok(events)
}

/// The event of a call. The call was executed elsewhere, as a call of a client tool is.
pub(super) fn call_event(call: &ToolCall, message_id: &str) -> NewEvent {
    let (name, input) = (call.name.clone(), call.input.clone());
    let message_id = Some(message_id.to_owned());
    let body = EventBody::AgentCustomToolUse { name, input, message_id };
    NewEvent::with_id(call.tool_use_id.clone(), &body)
}

/// The event of a tool result.
pub(super) fn result_event(tool_use_id: &str, content: Content, is_error: bool) -> NewEvent {
    let custom_tool_use_id = tool_use_id.to_owned();
    let text = if is_error { content.joined_text().ok() } else { None };
    let error_type = text.as_deref().and_then(ToolErrorType::of_text);
    NewEvent::new(&EventBody::UserCustomToolResult {
        custom_tool_use_id,
        content,
        is_error,
        error_type,
        handling: is_error.then(|| Handling::of(error_type)),
    })
}

/// The event of a settled run.
pub(super) fn idle_event(stop_reason: &StopReason) -> NewEvent {
    let stop_reason = stop_reason.clone();
    NewEvent::new(&EventBody::StatusIdle { stop_reason, limited: None, output_error: None })
}
