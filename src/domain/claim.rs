//! The right to drive a run, and what a worker must know to do it.

use std::time::Duration;

use super::ids::{EventId, RunId, SessionId, WorkerId};
use super::permission::{PermissionMode, Rule};
use super::run::RunOptions;
use super::session::Settings;

/// Duration of a lease, by the database's clock.
pub const LEASE: Duration = Duration::from_secs(12);
/// Time after the last renewal at which a worker treats its leases as lost. The difference to
/// [`LEASE`] is the time in which it stops its tools before another worker may start.
pub const LEASE_TRUSTED_FOR: Duration = Duration::from_secs(8);

/// The fence of a run: every write names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// The run.
    pub run_id: RunId,
    /// The fencing number of the writer's claim.
    pub attempt: i32,
    /// The writer's process.
    pub worker: WorkerId,
}

/// What changes of a session's permissions while it lives.
#[derive(Debug, Clone, Default)]
pub struct Permissions {
    /// The mode, once something has changed it.
    pub mode: Option<PermissionMode>,
    /// Rules that people made while they decided on calls.
    pub remembered: Vec<Rule>,
}

/// A run that a worker has taken up.
#[derive(Debug)]
pub struct Claimed {
    /// The right to write.
    pub fence: Fence,
    /// The session.
    pub session_id: SessionId,
    /// What the session pinned.
    pub settings: Settings,
    /// The operator's folder for all sessions, if there is one.
    pub workspace: Option<String>,
    /// The session whose sub-agent works in this one, and in whose folder.
    pub parent_session: Option<SessionId>,
    /// The id of the user message.
    pub message_id: String,
    /// The blocks of the user message.
    pub input: String,
    /// What the message asks of its run.
    pub options: RunOptions,
    /// The length of the history.
    pub last_message_seq: i32,
    /// Steps that are committed.
    pub steps: i32,
    /// Claims since the last committed step, this one included.
    pub takeovers: i32,
    /// The time since a worker first took the run up.
    pub elapsed: Duration,
    /// Whether the client has asked to cancel it.
    pub is_cancelled: bool,
    /// What the session's permissions have become since its creation.
    pub permissions: Permissions,
    /// Whether the owner of the session has a budget.
    pub is_budgeted: bool,
    /// The event that opened the first request, if the run was begun when it was accepted: the
    /// user message is in the history then.
    pub begun: Option<EventId>,
}
