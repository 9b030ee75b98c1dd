//! What of the events is shown.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// An event, or a preview of one.
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
    ToolUse { name: String, input: Value },
    #[serde(rename = "agent.tool_result")]
    ToolResult { content: Vec<Block>, is_error: bool },
    #[serde(rename = "agent.context_compacted")]
    Compacted(IgnoredAny),
    #[serde(rename = "session.status_rescheduled")]
    Rescheduled(IgnoredAny),
    #[serde(rename = "session.thread_event")]
    Thread { session_thread_id: String, event: Box<ThreadEvent> },
    #[serde(rename = "session.deleted")]
    Deleted(IgnoredAny),
    #[serde(other)]
    Other,
}

/// What a sub-agent does.
#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
pub(super) enum ThreadEvent {
    #[serde(rename = "agent.tool_use")]
    ToolUse { name: String, input: Value },
    #[serde(rename = "session.status_idle")]
    Idle { stop_reason: Rest },
    #[serde(other)]
    Other,
}

/// Why a sub-agent rests.
#[derive(Debug, Deserialize)]
pub(super) struct Rest {
    r#type: String,
}

impl Rest {
    /// Whether somebody has to decide on what it wants to do.
    pub(super) fn asks(&self) -> bool {
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

/// The text of all blocks.
pub(super) fn text(content: &[Block]) -> String {
    content.iter().map(Block::text).collect()
}
