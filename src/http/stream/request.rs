//! The request of a reader for a stream.

use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::http::stream::event_types::EventTypes;

/// The stream that a reader requested.
#[derive(Debug, Clone)]
pub(in crate::http) struct StreamRequest {
    /// The tenant of the session.
    pub(in crate::http) tenant: TenantId,
    /// The session.
    pub(in crate::http) session_id: SessionId,
    /// The only run to stream, whose terminal event ends the stream; none for all runs.
    pub(in crate::http) run_id: Option<RunId>,
    /// The sequence number of the last event that the reader has received.
    pub(in crate::http) after: i64,
    /// Streams previews too.
    pub(in crate::http) deltas: bool,
    /// The wanted event types.
    pub(in crate::http) types: EventTypes,
    /// The first phase of the stream.
    pub(in crate::http) first_phase: StreamPhase,
    /// Ends the stream when the backlog is sent and the run waits for the client. A stream that
    /// begins after the event `session.status_idle` of a waiting run otherwise stays open.
    pub(in crate::http) ends_if_waiting: bool,
}

/// The source of the next events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum StreamPhase {
    /// Stored events from the database.
    Backlog,
    /// Live events from the bus. A stream can begin here only if its subscription is older than the
    /// run that it follows.
    Live,
    /// None: the stream is complete.
    Ended,
}

impl StreamPhase {
    pub(super) fn is_live(self) -> bool {
        self == Self::Live
    }
}
