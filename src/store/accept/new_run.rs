//! A run to be accepted, and the outcome.

use crate::domain::claim::Claimed;
use crate::domain::event::{Frame, NewEvent};
use crate::domain::ids::{EventId, RunId, SessionId, TenantId, WorkerId};
use crate::domain::run_options::RunOptions;

/// Maximum number of queued messages of one session.
pub const MAX_QUEUED: i32 = 16;

/// A run to be accepted.
#[derive(Debug, Clone, Copy)]
pub struct NewRun<'a> {
    /// The ID.
    pub id: RunId,
    /// The owner of the session.
    pub tenant: TenantId,
    /// The session.
    pub session_id: SessionId,
    /// The ID of the user message.
    pub message_id: &'a str,
    /// The blocks of the user message.
    pub input: &'a str,
    /// The options of the run.
    pub options: &'a RunOptions,
    /// The client's `Idempotency-Key`.
    pub idempotency_key: Option<&'a str>,
    /// The client's own ID of the message.
    pub client_message_id: Option<&'a str>,
    /// A hash of the request, which distinguishes a repeated post from a different one with the
    /// same key.
    pub fingerprint: &'a [u8],
    /// The `user.message` event.
    pub event: &'a NewEvent,
    /// The ID of the event that announces the first request to the model, if the run starts at once.
    pub request_event: EventId,
    /// The worker that starts the run at once if the session is idle.
    pub worker: Option<WorkerId>,
    /// True if the run may wait in the queue of its session.
    pub may_wait: bool,
    /// Session versions (numbers of the newest event) of which one must match; `None` if any will
    /// do.
    pub versions: Option<&'a [i64]>,
}

/// The outcome of an accept.
#[derive(Debug)]
pub enum Accepted {
    /// The message has a run.
    Run(Box<AcceptedRun>),
    /// The queue of the session is full, or the session is busy and the message may not wait, or
    /// has another version than expected, or is archived, or does not exist, or has a run with the same
    /// key or message ID.
    Refused,
    /// Another statement has just accepted a run with the same key or message ID.
    Repeated,
}

/// An accepted run.
#[derive(Debug)]
pub struct AcceptedRun {
    /// Its events, to be published.
    pub frames: Vec<Frame>,
    /// The time of acceptance.
    pub created_at: jiff::Timestamp,
    /// Number of queued runs of the session, including this one; 0 if the run has started.
    pub queued: i32,
    /// The run as claimed by the worker, if it has started.
    pub begun: Option<Claimed>,
}
