//! A message of the history in the form of the Messages API.

use jiff::Timestamp;
use serde::Serialize;

use crate::domain::feedback::Feedback;
use crate::domain::ids::{RunId, SessionId};
use crate::domain::message::{Content, Role};
use crate::domain::stop_reason::ModelStop;
use crate::domain::usage::Usage;
use crate::store::message_events::MessageEvent;
use crate::store::messages::StoredMessage;

/// A message of a session's history with its position.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct HistoryItem {
    /// The role of the author.
    r#type: Role,
    /// The session.
    #[schema(value_type = String)]
    session_id: SessionId,
    /// The position in the history, from 1.
    seq: i32,
    /// The run that the message belongs to.
    #[schema(value_type = String)]
    run_id: RunId,
    /// The time when the message was stored.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    created_at: Timestamp,
    /// The events that report the message, in their order. Absent in exports, and for messages that an
    /// earlier version stored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<ReportingEvent>,
    /// The feedback of the user on a reply; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    feedback: Option<Feedback>,
    /// The message.
    message: HistoryMessage,
}

/// An event that reports a message or a part of it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ReportingEvent {
    /// The id of the event.
    id: String,
    /// The type of the event.
    r#type: String,
    /// The sequence number of the event; absent if the event belongs to the session from which the
    /// message is inherited.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<i64>,
}

/// A message in the form of the Messages API. User messages leave out the members that only replies
/// have.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct HistoryMessage {
    /// The id: the model's own for a reply, the client's or a generated one for a user message.
    id: String,
    /// The role of the author.
    role: Role,
    /// The content blocks, unchanged.
    #[schema(value_type = Vec<Object>)]
    content: Content,
    /// The model that wrote the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The model's stop reason; `interrupted` if the client stopped the run while the model wrote
    /// the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<String>,
    /// The stop sequence that the model wrote, for the stop reason `stop_sequence`.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_sequence: Option<String>,
    /// True for the stop reason `interrupted`: the message is the text that was received until then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
    /// The token usage of the model request.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
}

impl HistoryItem {
    /// A stored message of a session.
    pub(crate) fn new(session_id: SessionId, stored: StoredMessage) -> Self {
        let (role, stop) = (stored.message.role, stored.message.stop_reason);
        Self {
            r#type: role,
            session_id,
            seq: stored.seq,
            run_id: stored.run_id,
            created_at: stored.created_at,
            events: Vec::new(),
            feedback: None,
            message: HistoryMessage {
                id: stored.message_id,
                role,
                content: stored.message.content,
                model: stored.model,
                stop_sequence: stop.as_ref().and_then(ModelStop::sequence).map(str::to_owned),
                interrupted: stop == Some(ModelStop::Interrupted),
                stop_reason: stop.map(|stop| stop.as_str().to_owned()),
                usage: (role == Role::Assistant).then_some(stored.message.usage),
            },
        }
    }

    /// The same message with the feedback on it.
    pub(crate) fn with_feedback(self, feedback: Option<Feedback>) -> Self {
        Self { feedback, ..self }
    }

    /// The same message with the events that report it.
    pub(crate) fn with_events(mut self, events: Vec<MessageEvent>) -> Self {
        let event = |MessageEvent { id, kind, seq }| ReportingEvent { id, r#type: kind, seq };
        self.events = events.into_iter().map(event).collect();
        self
    }
}
