//! Claims and fences of runs.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::file::may_refer;
use super::ids::{EventId, RunId, SessionId, TenantId, WorkerId};
use super::model_settings::ModelSettings;
use super::permission::{PermissionMode, Rule};
use super::run_options::RunOptions;
use super::session::Settings;

/// Duration of a lease, by the database's clock.
pub const LEASE: Duration = Duration::from_secs(12);
/// Time after the last renewal at which a worker treats its leases as lost. The difference to
/// [`LEASE`] is the time in which it stops its tools before another worker may start.
pub const LEASE_TRUSTED_FOR: Duration = Duration::from_secs(8);

/// Time since boot, including time in suspend. Leases are measured with it: a process that was
/// stopped, or a machine that was suspended, sees the time that has passed.
pub fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}

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

/// The permissions of a session that change during its life.
#[derive(Debug, Clone, Default)]
pub struct Permissions {
    /// The mode, if it was changed.
    pub mode: Option<PermissionMode>,
    /// Rules that users added with their decisions.
    pub remembered: Vec<Rule>,
}

/// A run that a worker has claimed.
#[derive(Debug)]
pub struct Claimed {
    /// The fence.
    pub fence: Fence,
    /// The owner of the session.
    pub tenant: TenantId,
    /// The session.
    pub session_id: SessionId,
    /// The settings of the session: those that are pinned, with the model settings.
    pub settings: Settings,
    /// The model settings in place of the pinned ones, if a client has changed them. A run keeps those
    /// of its first request.
    pub model_settings: Option<Box<ModelSettings>>,
    /// The workspace folder that the operator chose for all sessions, if any.
    pub workspace: Option<String>,
    /// The parent's session, if this is the session of a sub-agent; it works in the parent's
    /// folder.
    pub parent_session: Option<SessionId>,
    /// True if the session is a fork. The model of its source may have written its files.
    pub is_fork: bool,
    /// The ID of the user message.
    pub message_id: String,
    /// The blocks of the user message.
    pub input: String,
    /// The options of the run.
    pub options: RunOptions,
    /// The number of messages in the history.
    pub last_message_seq: i32,
    /// Committed steps.
    pub steps: i32,
    /// Workers that died while they held the run, since its last step with progress.
    pub takeovers: i32,
    /// Time since the first claim, without waits for answers.
    pub elapsed: Duration,
    /// True if the client has requested cancellation.
    pub is_cancelled: bool,
    /// The session's current permissions.
    pub permissions: Permissions,
    /// True if the owner of the session has a budget.
    pub is_budgeted: bool,
    /// The event that announces the first request, if the run was started by the accept; then the
    /// user message is in the history.
    pub begun: Option<EventId>,
}

impl Claimed {
    /// True if the user message refers to uploaded files.
    pub fn has_files(&self) -> bool {
        may_refer(&self.input)
    }
}
