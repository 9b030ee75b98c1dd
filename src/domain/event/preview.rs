//! Previews: output that streams before its event is stored, and positions in the queue. Best effort,
//! never stored.

use serde::{Deserialize, Serialize};

use crate::domain::ids::{RunId, SessionId};

/// The kind of a preview: text, thinking or the input of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PreviewKind {
    /// Becomes `agent.message`.
    Message,
    /// Becomes `agent.thinking`.
    Thinking,
    /// Becomes `agent.tool_use`.
    ToolUse,
}

impl PreviewKind {
    /// Returns the type of the event that replaces the preview.
    pub const fn event_kind(self) -> &'static str {
        match self {
            Self::Message => "agent.message",
            Self::Thinking => "agent.thinking",
            Self::ToolUse => "agent.tool_use",
        }
    }
}

/// A preview on the wire. It has no sequence number and no SSE `id`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Preview<'a> {
    /// The start of a preview. For an id that has started before, clients discard the earlier text.
    EventStart {
        /// The event that will replace the preview.
        event: PreviewedEvent<'a>,
        /// The session.
        #[schema(value_type = String)]
        session_id: SessionId,
        /// The run.
        #[schema(value_type = String)]
        run_id: RunId,
    },
    /// The next piece of a preview.
    EventDelta {
        /// The event that will replace the preview.
        event_id: &'a str,
        /// The piece.
        delta: PreviewDelta<'a>,
        /// The session.
        #[schema(value_type = String)]
        session_id: SessionId,
        /// The run.
        #[schema(value_type = String)]
        run_id: RunId,
    },
    /// The position of a queued run, whenever it changes. It is obsolete when the run starts.
    QueuePosition {
        /// The position among the queued runs of all sessions that can start, in the order in which
        /// they start, from 1.
        position: i64,
        /// The number of queued runs of all sessions.
        length: i64,
        /// The session.
        #[schema(value_type = String)]
        session_id: SessionId,
        /// The run.
        #[schema(value_type = String)]
        run_id: RunId,
    },
}

/// The event that replaces a preview.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct PreviewedEvent<'a> {
    /// Its type.
    pub r#type: &'static str,
    /// Its id.
    pub id: &'a str,
    /// The tool's name, for a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
}

/// A piece of a preview.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PreviewDelta<'a> {
    /// Text to append to the content block with this index.
    ContentDelta {
        /// The index of the block in the event's content.
        index: usize,
        /// The text.
        content: PreviewText<'a>,
    },
    /// JSON text to append to the input of the call.
    InputJsonDelta {
        /// The text.
        partial_json: &'a str,
    },
}

/// A piece of text.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct PreviewText<'a> {
    /// `text`.
    pub r#type: &'static str,
    /// The text.
    pub text: &'a str,
}
