//! The sentence of an explanation.

use super::{Facts, Latest, OpenCall, RunQueuePosition, Wait, WaitsFor};
use crate::domain::limits::LimitKind;
use crate::domain::outcome::Outcome;
use crate::domain::permission::Awaits;
use crate::domain::run_status::RunStatus;
use crate::domain::stop_reason::StopReason;
use crate::domain::tool::CallState;

impl Facts {
    pub(super) fn waiting(&self, wait: &Wait) -> String {
        let since = format!("{:.6}", wait.since);
        match wait.on {
            WaitsFor::Queue => {
                let position = self.queue_position.unwrap_or(1);
                let behind = self.behind.map(|id| format!("; {id} goes first")).unwrap_or_default();
                format!("The run is number {position} in its session's queue{behind}.")
            }
            WaitsFor::Worker => self.for_worker(&since),
            WaitsFor::Model => self.for_model(&since),
            WaitsFor::Retry => {
                let failures = match &self.latest {
                    Some((Latest::Rescheduled { failures, .. }, _)) => *failures,
                    Some((Latest::Request | Latest::Other, _)) | None => 1,
                };
                let why = match failures {
                    0 => "is unavailable and its circuit breaker is open".to_owned(),
                    1 => "failed once".to_owned(),
                    _ => format!("failed {failures} times in a row"),
                };
                let at = wait.deadline.map(|at| format!(" at {at:.6}")).unwrap_or_default();
                format!("The model {why}; the next try is due{at}.")
            }
            WaitsFor::Tool => format!("The run waits for {}.", calls(&self.named())),
            WaitsFor::Cancel => {
                format!("Cancellation was requested at {since}; the run has not settled yet.")
            }
            WaitsFor::Limit => "The run is paused at a limit and waits for the client.".to_owned(),
            WaitsFor::Approval => self.for_decisions(),
            WaitsFor::ClientTool => {
                format!("The run waits for the client to answer {}.", calls(&self.named()))
            }
        }
    }

    /// The sentence for calls that wait for a decision, and for calls that the client runs as well.
    fn for_decisions(&self) -> String {
        let (theirs, ours): (Vec<&OpenCall>, Vec<&OpenCall>) =
            self.named().into_iter().partition(|call| call.awaits == Some(Awaits::Client));
        let clients = if theirs.is_empty() {
            String::new()
        } else {
            format!(", and for the client to answer {}", calls(&theirs))
        };
        format!("The run waits for a decision on {}{clients}.", calls(&ours))
    }

    fn for_worker(&self, since: &str) -> String {
        let is_lost = self.lease_until.is_none_or(|until| until <= self.now);
        match self.status {
            RunStatus::Running if is_lost && self.is_suspect() => format!(
                "Several workers in a row stopped during the run, the last one at {since}. Another \
                 worker takes it over after a pause, when it executes no other run like this one."
            ),
            RunStatus::Running if self.is_abandoned() => format!(
                "The worker of the run has been lost since {since}, and no other worker has taken \
                 it over: no other worker is alive, or none has a free slot."
            ),
            RunStatus::Running if is_lost => format!(
                "The worker of the run has been lost since {since}; another worker with a free slot \
                 takes it over within a second."
            ),
            RunStatus::Running if self.latest.is_none() => {
                format!("A worker claimed the run at {since} and has not started it yet.")
            }
            RunStatus::Running => format!("A worker has been executing the run since {since}."),
            RunStatus::RequiresAction => format!(
                "The calls of the run have been answered since {since}; a worker with a free slot \
                 resumes it within a second."
            ),
            RunStatus::Queued | RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => {
                let place =
                    self.queue.map_or_else(String::new, |RunQueuePosition { position, length }| {
                        format!(
                            " It is number {position} of {length} in the queue of all sessions."
                        )
                    });
                format!(
                    "The run has been the first in its session's queue since {since}, and no worker \
                     has claimed it yet.{place}"
                )
            }
        }
    }

    fn for_model(&self, since: &str) -> String {
        let limit = match self.limit_at() {
            Some(at) if at <= self.now => {
                format!(" Its time limit passed at {at:.6}: no tool is called after this reply.")
            }
            Some(at) => format!(" Its time limit is at {at:.6}."),
            None => String::new(),
        };
        format!("The run waits for the model, which received the request at {since}.{limit}")
    }

    pub(super) fn settled(&self) -> String {
        let at = self.finished_at.map(|at| format!(" at {at:.6}")).unwrap_or_default();
        let outcome = self.outcome.as_ref();
        let why = outcome.map(|outcome| format!(": {}", why(outcome))).unwrap_or_default();
        match self.status {
            RunStatus::Cancelled => format!("The run was cancelled{at}."),
            RunStatus::Failed => format!("The run failed{at}{why}."),
            RunStatus::Completed
            | RunStatus::Queued
            | RunStatus::Running
            | RunStatus::RequiresAction => format!("The run completed{at}{why}."),
        }
    }
}

fn why(outcome: &Outcome) -> String {
    if let Some(error) = &outcome.error {
        return error.message.trim_end_matches('.').to_owned();
    }
    let reason = match &outcome.stop_reason {
        StopReason::EndTurn => "the model finished its answer",
        StopReason::StopSequence { .. } => "the model wrote a stop sequence",
        StopReason::MaxTokens => "the answer is truncated at the output budget",
        StopReason::ModelContextWindowExceeded => {
            "the answer is truncated at the end of the context window"
        }
        StopReason::Refusal(_) => "the model declined",
        StopReason::Unknown { model_stop_reason } if model_stop_reason == "tool_use" => {
            "the model called a tool instead of answering"
        }
        StopReason::Unknown { .. } => "the model stopped for an unknown reason",
        StopReason::RetriesExhausted | StopReason::Error => "the model gave no answer",
        StopReason::BudgetExceeded { .. } => "a budget did not allow the next request",
        StopReason::Cancelled => "the client cancelled it",
        StopReason::RequiresAction { .. } => "it waits for the client",
    };
    let limit = match outcome.limited {
        None => return reason.to_owned(),
        Some(LimitKind::Rounds) => "rounds",
        Some(LimitKind::Tokens) => "tokens",
        Some(LimitKind::Cost) => "cost",
        Some(LimitKind::Seconds) => "seconds",
    };
    format!("{reason}, at the limit of {limit}")
}

fn calls(calls: &[&OpenCall]) -> String {
    let named: Vec<String> = calls
        .iter()
        .map(|OpenCall { name, tool_use_id, state, since, .. }| {
            let did = if *state == CallState::Started { "started" } else { "was requested" };
            format!("{name} ({tool_use_id}, which {did} at {since:.6})")
        })
        .collect();
    let noun = if named.len() == 1 { "the call" } else { "the calls" };
    format!("{noun} {}", named.join(", "))
}
