//! Explains the state of a run: the cause of its wait, its beginning and its possible end.
//!
//! A decision without IO, computed from a snapshot of facts.

mod sentence;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::ids::RunId;
use super::outcome::Outcome;
use super::permission::Awaits;
use super::run_status::RunStatus;
use super::suspicion::{Suspicion, backoff};
use super::tool::CallState;

/// The interval at which every worker with a free slot searches for expired leases.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The time after the end of a lease from which no worker is assumed to be alive.
const ABANDONED_AFTER: Duration = Duration::from_secs(5);

/// The cause of a run's wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitsFor {
    /// The model's reply.
    Model,
    /// Open tool calls.
    Tool,
    /// Earlier runs of the same session.
    Queue,
    /// The next try of a failed model request.
    Retry,
    /// A worker that claims or takes over the run.
    Worker,
    /// Its worker, which is to cancel it.
    Cancel,
    /// The client, because the run reached a limit.
    Limit,
    /// The client, to approve calls.
    Approval,
    /// The client, which runs the tool itself.
    ClientTool,
}

/// The position of a run in the queue of all sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct RunQueuePosition {
    /// The position among the queued runs that can start, in the order in which they start, from 1.
    pub position: i64,
    /// The number of queued runs of all sessions.
    pub length: i64,
}

/// A tool call that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct OpenCall {
    /// The model's own id of the call.
    pub tool_use_id: String,
    /// The tool's name.
    pub name: String,
    /// The state. The ledger records calls without effects only when they have ended; they are
    /// `started` while a worker executes them.
    pub state: CallState,
    /// Time of its start or its request.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    pub since: Timestamp,
    /// The party that must act, if the call waits for a decision or a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awaits: Option<Awaits>,
    /// The time limit of a started call whose tool is known, or the time at which a waiting call gets
    /// its default decision or result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::optional_time")]
    pub deadline: Option<Timestamp>,
}

/// The newest event of a run, by its meaning for a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Latest {
    /// A request to the model started.
    Request,
    /// A request to the model failed.
    Rescheduled {
        /// Number of consecutive failed requests of the run.
        failures: u32,
        /// Time of the next try.
        retry_at: Timestamp,
    },
    /// Any other event.
    Other,
}

/// The facts about a run at one moment. All times are the database's, except the time of a retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Time of the snapshot.
    pub now: Timestamp,
    /// The run.
    pub run_id: RunId,
    /// The state.
    pub status: RunStatus,
    /// Time of acceptance.
    pub created_at: Timestamp,
    /// Time at which a worker first claimed it.
    pub started_at: Option<Timestamp>,
    /// Time at which it settled.
    pub finished_at: Option<Timestamp>,
    /// Time at which the client requested its cancellation.
    pub cancel_requested_at: Option<Timestamp>,
    /// End of its lease.
    pub lease_until: Option<Timestamp>,
    /// Time since which it waits for answers.
    pub waiting_since: Option<Timestamp>,
    /// Time at which it resumes at the latest, if it waits for answers.
    pub wake_at: Option<Timestamp>,
    /// Its time limit in seconds.
    pub limit_seconds: Option<u32>,
    /// Its outcome.
    pub outcome: Option<Outcome>,
    /// Workers that died while they held it, since its last step with progress.
    pub takeovers: i32,
    /// Its position in the session's queue, from 1.
    pub queue_position: Option<i64>,
    /// Its position in the queue of all sessions, if it can start.
    pub queue: Option<RunQueuePosition>,
    /// The run ahead of it: the active run, or else the first in the queue.
    pub behind: Option<RunId>,
    /// Time at which a run of its session last settled.
    pub idle_since: Option<Timestamp>,
    /// Its open calls.
    pub calls: Vec<OpenCall>,
    /// Its newest event that no client caused, and the time of its storage.
    pub latest: Option<(Latest, Timestamp)>,
}

/// The explanation of a run's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The cause of the wait; none for a settled run.
    pub waits_for: Option<WaitsFor>,
    /// Beginning of the wait; for a settled run, the time at which it settled.
    pub since: Timestamp,
    /// Latest end of the wait without intervention, if known.
    pub deadline: Option<Timestamp>,
    /// The run whose cancellation ends the wait.
    pub cancel: Option<RunId>,
    /// The explanation in one sentence for people.
    pub sentence: String,
}

/// A wait without its sentence.
struct Wait {
    on: WaitsFor,
    since: Timestamp,
    deadline: Option<Timestamp>,
}

impl Facts {
    /// Explains the run.
    pub fn explain(&self) -> Explanation {
        let Some(wait) = self.wait() else {
            return Explanation {
                waits_for: None,
                since: self.finished_at.unwrap_or(self.created_at),
                deadline: None,
                cancel: None,
                sentence: self.settled(),
            };
        };
        let cancel = match wait.on {
            // Cancellation has already been requested.
            WaitsFor::Cancel => None,
            WaitsFor::Queue => self.behind,
            WaitsFor::Model
            | WaitsFor::Tool
            | WaitsFor::Retry
            | WaitsFor::Worker
            | WaitsFor::Limit
            | WaitsFor::Approval
            | WaitsFor::ClientTool => Some(self.run_id),
        };
        Explanation {
            waits_for: Some(wait.on),
            since: wait.since,
            deadline: wait.deadline,
            cancel,
            sentence: self.waiting(&wait),
        }
    }

    fn wait(&self) -> Option<Wait> {
        match self.status {
            RunStatus::Queued => Some(self.queued()),
            RunStatus::Running => Some(self.running()),
            RunStatus::RequiresAction => Some(self.requires_action()),
            RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => None,
        }
    }

    fn queued(&self) -> Wait {
        if self.behind.is_some() {
            return Wait { on: WaitsFor::Queue, since: self.created_at, deadline: None };
        }
        let since = self.idle_since.map_or(self.created_at, |idle| idle.max(self.created_at));
        Wait { on: WaitsFor::Worker, since, deadline: None }
    }

    /// Returns `true` if another worker should have taken over the run long ago.
    fn is_abandoned(&self) -> bool {
        let lost_at = self.claimable_at().and_then(|at| after(at, ABANDONED_AFTER));
        lost_at.is_some_and(|lost_at| lost_at < self.now)
    }

    /// Returns the time from which another worker may take the run over: the end of the lease, and the
    /// pause after several deaths of workers. Another death is counted with the takeover.
    fn claimable_at(&self) -> Option<Timestamp> {
        after(self.lease_until?, backoff(self.takeovers + 1))
    }

    /// Returns `true` if workers died during the run, so that it is executed without others like it.
    fn is_suspect(&self) -> bool {
        Suspicion::after(self.takeovers + 1) != Suspicion::None
    }

    fn running(&self) -> Wait {
        let lease_until = self.lease_until.unwrap_or(self.now);
        if lease_until <= self.now {
            let claimable_at = self.claimable_at().unwrap_or(lease_until);
            let taken_over_by = after(claimable_at, SWEEP_INTERVAL).filter(|_| !self.is_suspect());
            let deadline = taken_over_by.filter(|_| !self.is_abandoned());
            return Wait { on: WaitsFor::Worker, since: lease_until, deadline };
        }
        if let Some(since) = self.cancel_requested_at {
            // A worker that misses the cancellation signal loses its lease by then.
            return Wait { on: WaitsFor::Cancel, since, deadline: Some(lease_until) };
        }
        if !self.calls.is_empty() {
            let since = self.calls_since();
            let deadlines = self.calls.iter().map(|call| call.deadline);
            let deadline =
                deadlines.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max());
            return Wait { on: WaitsFor::Tool, since, deadline };
        }
        match &self.latest {
            Some((Latest::Rescheduled { retry_at, .. }, since)) if *retry_at > self.now => {
                Wait { on: WaitsFor::Retry, since: *since, deadline: Some(*retry_at) }
            }
            Some((Latest::Rescheduled { retry_at, .. }, _)) => model(*retry_at),
            Some((Latest::Request, since)) => model(*since),
            Some((Latest::Other, since)) => {
                Wait { on: WaitsFor::Worker, since: *since, deadline: Some(lease_until) }
            }
            None => {
                let since = self.started_at.unwrap_or(self.created_at);
                Wait { on: WaitsFor::Worker, since, deadline: Some(lease_until) }
            }
        }
    }

    fn requires_action(&self) -> Wait {
        let on = if let Some(since) = self.cancel_requested_at {
            return Wait { on: WaitsFor::Cancel, since, deadline: None };
        } else if self.calls.is_empty() {
            WaitsFor::Limit
        } else if self.calls.iter().any(|call| call.awaits == Some(Awaits::Approval)) {
            WaitsFor::Approval
        } else if self.calls.iter().any(|call| call.awaits == Some(Awaits::Client)) {
            WaitsFor::ClientTool
        } else {
            // All calls have been answered.
            let since = self.wake_at.unwrap_or(self.now);
            return Wait { on: WaitsFor::Worker, since, deadline: after(since, SWEEP_INTERVAL) };
        };
        let since = self.waiting_since.unwrap_or_else(|| self.calls_since());
        Wait { on, since, deadline: self.wake_at }
    }

    /// Returns the calls that wait for an answer, or all open calls if there are none.
    fn named(&self) -> Vec<&OpenCall> {
        let waiting: Vec<&OpenCall> =
            self.calls.iter().filter(|call| call.awaits.is_some()).collect();
        if waiting.is_empty() { self.calls.iter().collect() } else { waiting }
    }

    fn calls_since(&self) -> Timestamp {
        let first = self.calls.iter().map(|call| call.since).min();
        first.or(self.started_at).unwrap_or(self.created_at)
    }

    /// Returns the time at which the run reaches its time limit, if it has one.
    fn limit_at(&self) -> Option<Timestamp> {
        let seconds = self.limit_seconds?;
        after(self.started_at?, Duration::from_secs(seconds.into()))
    }
}

/// A wait for the model has no deadline: a request ends only by silence of the model.
fn model(since: Timestamp) -> Wait {
    Wait { on: WaitsFor::Model, since, deadline: None }
}

/// Adds a duration; none on overflow.
pub fn after(time: Timestamp, wait: Duration) -> Option<Timestamp> {
    time.checked_add(jiff::SignedDuration::try_from(wait).ok()?).ok()
}
