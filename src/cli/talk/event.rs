//! The events that are shown on a terminal.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// An event or a preview.
#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
pub(super) enum Event {
    #[serde(rename = "event_start")]
    Start { event: Previewed },
    #[serde(rename = "event_delta")]
    Delta { event_id: String, delta: Delta },
    #[serde(rename = "agent.message")]
    Message { id: String, content: Vec<Block> },
    #[serde(rename = "agent.tool_use", alias = "agent.custom_tool_use")]
    ToolUse { id: String, name: String, input: Value },
    #[serde(rename = "agent.tool_result")]
    ToolResult { tool_use_id: String, content: Vec<Block>, is_error: bool },
    #[serde(rename = "session.status_running")]
    Running(IgnoredAny),
    #[serde(rename = "span.model_request_start")]
    ModelRequest(IgnoredAny),
    #[serde(rename = "agent.context_compacted")]
    Compacted(IgnoredAny),
    #[serde(rename = "session.status_rescheduled")]
    Rescheduled(IgnoredAny),
    #[serde(rename = "session.thread_event")]
    SubAgent { session_thread_id: String, event: Box<SubAgentEvent> },
    #[serde(rename = "session.deleted")]
    Deleted(IgnoredAny),
    #[serde(other)]
    Other,
}

/// An event of a sub-agent.
#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
pub(super) enum SubAgentEvent {
    #[serde(rename = "agent.tool_use")]
    ToolUse { name: String, input: Value },
    #[serde(rename = "session.status_idle")]
    Idle { stop_reason: IdleReason },
    #[serde(other)]
    Other,
}

/// The stop reason of a sub-agent.
#[derive(Debug, Deserialize)]
pub(super) struct IdleReason {
    r#type: String,
}

impl IdleReason {
    /// Returns true if the sub-agent waits for an approval or a client result.
    pub(super) fn needs_action(&self) -> bool {
        self.r#type == "requires_action"
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Previewed {
    pub(super) r#type: String,
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
pub(super) enum Delta {
    #[serde(rename = "content_delta")]
    Content { content: Block },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct Block {
    #[serde(default)]
    text: String,
}

impl Block {
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// Joins the text of all blocks.
pub(super) fn text(content: &[Block]) -> String {
    content.iter().map(Block::text).collect()
}
