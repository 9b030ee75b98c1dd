//! Why a run stands where it stands: what it waits for, since when, and what would end the wait.
//!
//! A decision without IO: from the facts of a moment to an explanation.

mod sentence;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::ids::RunId;
use super::permission::Awaits;
use super::run::{Outcome, RunStatus};
use super::tool::CallState;

/// How often every worker with a free slot looks for runs whose lease ran out.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The time without a lease after which no worker can be there to take the run over.
const ABANDONED_AFTER: Duration = Duration::from_secs(5);

/// What a run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitsFor {
    /// The model's reply.
    Model,
    /// Tool calls that are open.
    Tool,
    /// Runs of the same session that go first.
    Queue,
    /// The time at which the model is asked again after a failure.
    Retry,
    /// A worker that takes the run up, or over.
    Worker,
    /// Its worker, which has been asked to stop it.
    Cancel,
    /// The client, because a limit was reached.
    Limit,
    /// The client, to approve calls.
    Approval,
    /// The client, which runs the tool itself.
    ClientTool,
}

/// A tool call that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct OpenCall {
    /// The model's own id of the call.
    pub tool_use_id: String,
    /// The tool's name.
    pub name: String,
    /// Whether it has begun. Calls that change nothing are noted only when they have ended, and
    /// so are `planned` while they run.
    pub state: CallState,
    /// When it began, or was asked for.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// Who must act before it goes on, if it waits for somebody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awaits: Option<Awaits>,
    /// When it is given up, if it has begun and its tool is known; when it gets its default
    /// answer, if it waits for somebody.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deadline: Option<Timestamp>,
}

/// The newest thing that a run did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Latest {
    /// It asked the model.
    Request,
    /// The model failed.
    Rescheduled {
        /// How many requests of the run have failed in a row.
        failures: u32,
        /// When it is asked again.
        retry_at: Timestamp,
    },
    /// Something else.
    Other,
}

/// What is known of a run at one moment. All times are the database's but for a retry's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The moment.
    pub now: Timestamp,
    /// The run.
    pub run_id: RunId,
    /// Where it stands.
    pub status: RunStatus,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When a worker first took it up.
    pub started_at: Option<Timestamp>,
    /// When it settled.
    pub finished_at: Option<Timestamp>,
    /// When the client asked for it to be cancelled.
    pub cancel_requested_at: Option<Timestamp>,
    /// Until when its worker holds it.
    pub lease_until: Option<Timestamp>,
    /// Since when it waits for somebody.
    pub waiting_since: Option<Timestamp>,
    /// When it goes on at the latest, if it waits for somebody.
    pub wake_at: Option<Timestamp>,
    /// The seconds that it may take.
    pub limit_seconds: Option<u32>,
    /// What it left behind.
    pub outcome: Option<Outcome>,
    /// Its place among those of its session that wait, from 1.
    pub queue_position: Option<i64>,
    /// The run that goes first: the live one, or else the first that waits.
    pub behind: Option<RunId>,
    /// When a run of its session last settled.
    pub idle_since: Option<Timestamp>,
    /// Its calls that have not ended.
    pub calls: Vec<OpenCall>,
    /// Its newest event that is not a client's, and when that was stored.
    pub latest: Option<(Latest, Timestamp)>,
}

/// Why a run stands where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What it waits for; none when it has settled.
    pub waits_for: Option<WaitsFor>,
    /// Since when; for a settled run, when it settled.
    pub since: Timestamp,
    /// When the wait ends by itself at the latest, if that is known.
    pub deadline: Option<Timestamp>,
    /// The run whose cancellation ends the wait.
    pub cancel: Option<RunId>,
    /// All of it for people.
    pub sentence: String,
}

/// A wait before it is put into words.
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
            // Asking twice is the same as asking once.
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

    /// Whether the run should have been taken over long ago.
    fn is_abandoned(&self) -> bool {
        let lost_at = self.lease_until.and_then(|until| after(until, ABANDONED_AFTER));
        lost_at.is_some_and(|lost_at| lost_at < self.now)
    }

    fn running(&self) -> Wait {
        let lease_until = self.lease_until.unwrap_or(self.now);
        if lease_until <= self.now {
            let taken_over_by = after(lease_until, SWEEP_EVERY);
            let deadline = taken_over_by.filter(|_| !self.is_abandoned());
            return Wait { on: WaitsFor::Worker, since: lease_until, deadline };
        }
        if let Some(since) = self.cancel_requested_at {
            // A worker that does not hear of it loses the run.
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
            // All of them have been answered.
            let since = self.wake_at.unwrap_or(self.now);
            return Wait { on: WaitsFor::Worker, since, deadline: after(since, SWEEP_EVERY) };
        };
        let since = self.waiting_since.unwrap_or_else(|| self.calls_since());
        Wait { on, since, deadline: self.wake_at }
    }

    /// The calls that wait for somebody; all that are open when none does.
    fn named(&self) -> Vec<&OpenCall> {
        let waiting: Vec<&OpenCall> =
            self.calls.iter().filter(|call| call.awaits.is_some()).collect();
        if waiting.is_empty() { self.calls.iter().collect() } else { waiting }
    }

    fn calls_since(&self) -> Timestamp {
        let first = self.calls.iter().map(|call| call.since).min();
        first.or(self.started_at).unwrap_or(self.created_at)
    }

    /// When the run reaches its limit of seconds, if it has one.
    fn limit_at(&self) -> Option<Timestamp> {
        let seconds = self.limit_seconds?;
        after(self.started_at?, Duration::from_secs(seconds.into()))
    }
}

/// How long the model may take is nobody's to say: it is given up when it falls silent.
fn model(since: Timestamp) -> Wait {
    Wait { on: WaitsFor::Model, since, deadline: None }
}

/// A time later; none beyond what can be written.
pub fn after(time: Timestamp, wait: Duration) -> Option<Timestamp> {
    time.checked_add(jiff::SignedDuration::try_from(wait).ok()?).ok()
}
