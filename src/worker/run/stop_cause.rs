//! Why a run is no longer driven, and what is left to do then.

use crate::agent::history::{self, BadReply};
use crate::domain::budget::Exceeded;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::message::BadContent;
use crate::domain::run::{ErrorType, Outcome, RunError, RunStatus, StopReason};
use crate::domain::usage::Usage;
use crate::model::ModelError;
use crate::store::StoreError;
use crate::store::claim::release;
use crate::store::step::StepCommit;
use crate::worker::run::database_retry::in_time;
use crate::worker::run::driver::{Driver, RequestEnd, idle, new_user_message, user_message};

/// What clients are told of a defect.
const DEFECT: &str = "the service failed; its log says why";

/// Why a run is no longer driven.
#[derive(Debug)]
pub(in crate::worker) enum Halt {
    /// Another worker may hold it: nothing more may be written.
    LeaseLost,
    /// The client cancelled it.
    Cancelled,
    /// This process stops.
    ShuttingDown,
    /// The model gave no reply.
    Model(ModelError),
    /// A budget does not allow the next request.
    Budget(Exceeded),
    /// The database failed.
    Store(StoreError),
    /// Something that cannot be, such as a stored message that is not readable.
    Defect(String),
    /// Worker after worker died on it.
    CrashLoop,
    /// It was put down until its calls are answered.
    Waiting,
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<sqlx::Error> for Halt {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<BadContent> for Halt {
    fn from(error: BadContent) -> Self {
        Self::Defect(error.to_string())
    }
}

impl From<BadReply> for Halt {
    fn from(error: BadReply) -> Self {
        Self::Model(ModelError::Malformed(error.to_string()))
    }
}

impl From<serde_json::Error> for Halt {
    fn from(error: serde_json::Error) -> Self {
        Self::Defect(error.to_string())
    }
}

impl Driver<'_> {
    /// Settles or lets go what can go no further.
    pub(in crate::worker) async fn halt(&mut self, halt: Halt) -> Result<(), Halt> {
        // A call that is still at work somewhere hears that nobody waits for it.
        self.context.stop.cancel();
        let failed = |r#type, message: &str| RunError { r#type, message: message.to_owned() };
        let error = match halt {
            Halt::LeaseLost => {
                self.worker.parts.metrics.lease_lost();
                tracing::warn!(run.id = %self.run_id(), "the lease is lost; another worker goes on");
                return Ok(());
            }
            Halt::Cancelled => {
                return self.settle(RunStatus::Cancelled, StopReason::Cancelled, None).await;
            }
            Halt::Waiting => return Ok(()),
            Halt::ShuttingDown => return self.release(false).await,
            // Somebody who takes it over would ask the model again, and fail here again.
            Halt::Store(error) if error.is_permanent() => {
                tracing::error!(run.id = %self.run_id(), %error, "a run's step cannot be stored");
                failed(ErrorType::InternalError, DEFECT)
            }
            Halt::Store(error) => {
                tracing::error!(run.id = %self.run_id(), %error, "the database failed a run");
                return self.release(true).await;
            }
            Halt::Model(error) => {
                tracing::error!(run.id = %self.run_id(), %error, "the model gave no reply");
                error.for_clients()
            }
            Halt::Budget(exceeded) => {
                tracing::info!(run.id = %self.run_id(), %exceeded, "a budget ends a run");
                let Exceeded { scope, unit, .. } = exceeded;
                let error = failed(ErrorType::BudgetExceeded, &exceeded.to_string());
                let stop_reason = StopReason::BudgetExceeded { scope, unit };
                return self.settle(RunStatus::Failed, stop_reason, Some(error)).await;
            }
            Halt::Defect(cause) => {
                tracing::error!(run.id = %self.run_id(), cause, "a run met a defect");
                failed(ErrorType::InternalError, DEFECT)
            }
            Halt::CrashLoop => {
                tracing::error!(run.id = %self.run_id(), "a run is given up: its workers die");
                failed(
                    ErrorType::CrashLoop,
                    "worker after worker stopped on this run without getting further",
                )
            }
        };
        self.settle(RunStatus::Failed, StopReason::RetriesExhausted, Some(error)).await
    }

    async fn settle(
        &mut self,
        status: RunStatus,
        stop_reason: StopReason,
        error: Option<RunError>,
    ) -> Result<(), Halt> {
        // What was in hand when the run was stopped may not be what is stored.
        self.resume(true).await?;
        let open = self.close_calls().await?;
        let mut events = open.events;
        let request = self.unanswered(error.as_ref());
        let duration_ms = request.as_ref().map_or(0, |request| request.duration_ms);
        events.extend(self.end_request(&RequestEnd { duration_ms, ..RequestEnd::default() }));
        if let Some(error) = &error {
            events.push(NewEvent::new(&EventBody::Error { error: error.clone() }));
        }
        if self.spent.usage != Usage::default() {
            events.push(self.told_usage());
        }
        let (limited, output_text, output) = (None, String::new(), None);
        let outcome = Outcome { stop_reason, limited, output_text, error, output };
        events.push(idle(&outcome));
        let mut messages = Vec::new();
        if !open.results.is_empty() {
            messages.push(new_user_message(user_message(history::results(&open.results)?)));
        }
        let step = StepCommit {
            recorded_message_seq: self.last_message_seq(),
            recorded: &open.records,
            notes: &open.notes,
            events: &events,
            request: request.as_ref(),
            dequeues: !self.is_begun,
            settles: Some((status, &outcome)),
            ..StepCommit::default()
        };
        self.store(&messages, &step).await
    }

    /// Lets the run go. One that failed may be what the failure comes from, and is counted.
    async fn release(&self, has_failed: bool) -> Result<(), Halt> {
        in_time(async {
            let mut conn = self.worker.parts.pool.acquire().await?;
            release(&mut conn, self.run.fence, has_failed).await?;
            conn.give_back();
            Ok(())
        })
        .await
    }
}
