//! Runs: the work that one user message starts.

use jiff::Timestamp;

use super::ids::{RunId, SessionId};
use super::outcome::Outcome;
use super::pending_call::PendingCall;
use super::run_log::RunLog;
use super::run_status::RunStatus;
use super::usage::Usage;

/// A run as stored.
#[derive(Debug, Clone)]
pub struct Run {
    /// The id.
    pub id: RunId,
    /// The session.
    pub session_id: SessionId,
    /// The user message that started it.
    pub message_id: String,
    /// The run whose message that message repeats.
    pub retry_of: Option<RunId>,
    /// The current state.
    pub status: RunStatus,
    /// The sequence number of the event that accepted it.
    pub accepted_seq: i64,
    /// The number of the newest event of the session when the run was read.
    pub seq: i64,
    /// Position in the session's queue, from 1; none when the run is not queued.
    pub queue_position: Option<i64>,
    /// Calls that wait for an answer.
    pub pending: Vec<PendingCall>,
    /// The tool calls of the run; empty when the run was read as part of a list.
    pub log: RunLog,
    /// The outcome, once the run has settled.
    pub outcome: Option<Outcome>,
    /// True for a run that an import created: it executed elsewhere and used nothing here.
    pub is_imported: bool,
    /// Number of requests to the model.
    pub model_requests: i32,
    /// Token usage of all requests.
    pub usage: Usage,
    /// Cost of all requests in micro-dollars; none when no price is known.
    pub cost: Option<i64>,
    /// Time of acceptance.
    pub created_at: Timestamp,
    /// Time at which a worker first started it.
    pub started_at: Option<Timestamp>,
    /// Time at which it settled.
    pub finished_at: Option<Timestamp>,
}

impl Run {
    /// Returns `true` if all its pending calls are answered, so that a worker is about to resume
    /// it.
    pub const fn is_resumable(&self) -> bool {
        matches!(self.status, RunStatus::RequiresAction) && self.pending.is_empty()
    }

    /// Returns `true` if the run does not change before the client acts.
    pub const fn is_idle(&self) -> bool {
        match self.status {
            RunStatus::RequiresAction => !self.is_resumable(),
            RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => true,
            RunStatus::Queued | RunStatus::Running => false,
        }
    }
}
