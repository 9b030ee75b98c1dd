//! Previews: what streams before its event exists. Best effort, never stored.

use serde::{Deserialize, Serialize};

use crate::domain::ids::{RunId, SessionId};

/// What is being streamed before its event exists: text, thinking or a tool's input.
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
    /// The type of the event that will replace the preview.
    pub const fn event_kind(self) -> &'static str {
        match self {
            Self::Message => "agent.message",
            Self::Thinking => "agent.thinking",
            Self::ToolUse => "agent.tool_use",
        }
    }
}

/// A preview on the wire. It has no number, and no SSE `id`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Preview<'a> {
    /// Something begins to stream. For an id that is known: what came of it is to be forgotten.
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
    /// More of it.
    EventDelta {
        /// The event that will replace the preview.
        event_id: &'a str,
        /// What came.
        delta: PreviewDelta<'a>,
        /// The session.
        #[schema(value_type = String)]
        session_id: SessionId,
        /// The run.
        #[schema(value_type = String)]
        run_id: RunId,
    },
}

/// The event that a preview will become.
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
    /// Text, to be appended to the block at this place of the event's content.
    ContentDelta {
        /// The place of the block.
        index: usize,
        /// The text.
        content: PreviewText<'a>,
    },
    /// JSON text, to be appended to the input of the call.
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
