//! Events and previews of a run, as adapters read them from a stream.

use serde::Deserialize;
use serde_json::Value;

use crate::bus::PreviewFrame;
use crate::domain::event::{Frame, PreviewKind};
use crate::domain::outcome::RunError;
use crate::domain::permission::{Decision, Permission};
use crate::domain::source::Source;
use crate::domain::stop_reason::StopReason;
use crate::domain::usage::Usage;
use crate::http::stream::format::StreamFormat;

/// An event of a run.
#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
pub(in crate::http) enum RunEvent {
    #[serde(rename = "user.message")]
    UserMessage { content: Vec<Block> },
    #[serde(rename = "user.tool_confirmation")]
    Decided {
        tool_use_id: String,
        result: Decision,
        deny_message: Option<String>,
        /// The input that replaces the model's.
        input: Option<Value>,
    },
    #[serde(rename = "user.custom_tool_result")]
    ClientResult {
        #[serde(rename = "custom_tool_use_id")]
        tool_use_id: String,
        content: Vec<Block>,
        is_error: bool,
    },
    #[serde(rename = "agent.message")]
    Text { id: String, content: Vec<Block> },
    #[serde(rename = "agent.thinking")]
    Thinking { id: String, content: Vec<Block> },
    #[serde(rename = "agent.tool_use")]
    ToolUse { id: String, name: String, input: Value, evaluated_permission: Permission },
    #[serde(rename = "agent.custom_tool_use")]
    ClientToolUse { id: String, name: String, input: Value },
    #[serde(rename = "agent.tool_result")]
    ToolResult {
        tool_use_id: String,
        content: Vec<Block>,
        is_error: bool,
        #[serde(default)]
        sources: Vec<Source>,
    },
    #[serde(rename = "session.todos")]
    Todos { todos: Value },
    #[serde(rename = "session.thread_created")]
    SubAgent(SubAgent),
    #[serde(rename = "session.thread_event")]
    SubAgentEvent { tool_use_id: String, event: Kind },
    #[serde(rename = "session.status_running")]
    Running {},
    #[serde(rename = "session.status_rescheduled")]
    Rescheduled { retry_at: String },
    #[serde(rename = "session.status_idle")]
    Idle { stop_reason: StopReason },
    #[serde(rename = "session.error")]
    Error { error: RunError },
    #[serde(rename = "session.usage")]
    Usage { usage: Value, cost: Option<i64> },
    #[serde(rename = "span.model_request_start")]
    ModelRequest {
        /// The call whose tool sends the request.
        tool_use_id: Option<String>,
    },
    #[serde(rename = "span.model_request_end")]
    ModelReply {
        /// The tokens of the request.
        model_usage: Usage,
    },
    #[serde(other)]
    Other,
}

/// The start of a sub-agent.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::http) struct SubAgent {
    pub(in crate::http) session_thread_id: String,
    pub(in crate::http) tool_use_id: String,
    pub(in crate::http) agent_name: String,
    pub(in crate::http) description: String,
}

/// The type of an event.
#[derive(Debug, Deserialize)]
pub(in crate::http) struct Kind {
    #[serde(rename = "type")]
    pub(in crate::http) kind: String,
}

/// A content block, of which events have only the text.
#[derive(Debug, Deserialize)]
pub(in crate::http) struct Block {
    #[serde(default)]
    text: String,
}

impl RunEvent {
    /// Reads a stored event. Types that adapters do not use, and those of later versions, are
    /// [`RunEvent::Other`].
    pub(in crate::http) fn of(frame: &Frame) -> Self {
        serde_json::from_slice(&frame.json()).unwrap_or_else(|error| {
            tracing::warn!(event.id = frame.id, event.kind = frame.kind, %error, "an event could not be read");
            Self::Other
        })
    }
}

/// Joins the texts of blocks.
pub(in crate::http) fn joined(content: &[Block]) -> String {
    content.iter().map(|block| block.text.as_str()).collect()
}

/// A preview of a run.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(in crate::http) enum RunPreview {
    EventStart {
        event: PreviewStart,
    },
    EventDelta {
        event_id: String,
        delta: Delta,
    },
    QueuePosition {
        position: i64,
        length: i64,
    },
    #[serde(other)]
    Other,
}

/// The event that replaces a preview.
#[derive(Debug, Deserialize)]
pub(in crate::http) struct PreviewStart {
    pub(in crate::http) id: String,
    #[serde(rename = "type")]
    kind: String,
    /// The name of the tool.
    pub(in crate::http) name: Option<String>,
}

impl PreviewStart {
    /// The kind of the preview.
    pub(in crate::http) fn kind(&self) -> PreviewKind {
        let kinds = [PreviewKind::Thinking, PreviewKind::ToolUse];
        let known = kinds.into_iter().find(|kind| kind.event_kind() == self.kind);
        known.unwrap_or(PreviewKind::Message)
    }
}

/// A piece of a preview.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(in crate::http) enum Delta {
    ContentDelta { content: Block },
    InputJsonDelta { partial_json: String },
}

impl Delta {
    pub(in crate::http) fn into_text(self) -> String {
        match self {
            Self::ContentDelta { content } => content.text,
            Self::InputJsonDelta { partial_json } => partial_json,
        }
    }
}

impl RunPreview {
    /// Reads a preview.
    pub(in crate::http) fn of(preview: &PreviewFrame) -> Self {
        let line = StreamFormat::JsonLines.frame(preview.sse.clone());
        serde_json::from_slice(&line).unwrap_or(Self::Other)
    }
}
