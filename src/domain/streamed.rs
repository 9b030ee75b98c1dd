//! Events on the wire.

use jiff::Timestamp;
use serde::Serialize;

use super::event::{EventBody, Preview, StreamEnd};
use super::ids::{RunId, SessionId};

/// An event on the wire. The type determines the other members.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Event {
    /// The event's id: the `tool_use` id for `agent.tool_use`, the message's id for `user.message`.
    pub id: String,
    /// The sequence number in the session: from 1, without gaps.
    pub seq: i64,
    /// The session.
    #[schema(value_type = String)]
    pub session_id: SessionId,
    /// The run that the event belongs to.
    #[schema(value_type = Option<String>)]
    pub run_id: Option<RunId>,
    /// Time of storage.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    pub created_at: Timestamp,
    /// The type and its members.
    #[serde(flatten)]
    pub body: EventBody,
}

/// The data of one SSE event.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum Streamed<'a> {
    /// A stored event.
    Event(Event),
    /// A preview of an event that is not stored yet.
    Preview(Preview<'a>),
    /// The end of the stream of a deleted session.
    StreamEnd(StreamEnd),
}
