//! The end of a run that cannot continue here: it is settled, or released for another worker.

use super::driver::Driver;
use super::interrupted::interrupted_message;
use super::messages::{first_message, new_user_message, user_message};
use super::outcome::idle_event;
use super::resume::resume;
use super::stop_cause::{Ending, StopCause};
use crate::agent::history;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::outcome::{Outcome, RunError};
use crate::domain::run_status::RunStatus;
use crate::domain::stop_reason::StopReason;
use crate::domain::usage::Usage;
use crate::store::leases::release;
use crate::store::retry::in_time;
use crate::store::step::StepCommit;

impl Driver<'_> {
    /// Settles or releases a run that cannot continue here.
    pub(super) async fn end(&mut self, cause: StopCause) -> Result<(), StopCause> {
        // Cancels calls that are still being executed: no result is expected any more.
        self.tools.cancel_calls();
        self.quick = None;
        let cause = self.state.writer.finish().await.err().unwrap_or(cause);
        if self.state.writer.has_lost_step() {
            self.model.discard_request();
        }
        if matches!(cause, StopCause::LeaseLost) {
            self.run.services.metrics.lease_lost();
            self.run.services.lost_leases.add(self.run.claim.fence);
        }
        match cause.into_ending(self.run.run_id()) {
            Ending::None => {
                self.model.log_lost_usage();
                Ok(())
            }
            Ending::Release { has_failed } => {
                self.model.record_stopped(&mut self.state).await;
                self.release(has_failed).await
            }
            Ending::Settle { status, stop_reason, error } => {
                self.settle(status, stop_reason, error).await
            }
        }
    }

    async fn settle(
        &mut self,
        status: RunStatus,
        stop_reason: StopReason,
        error: Option<RunError>,
    ) -> Result<(), StopCause> {
        // The state in memory may differ from the stored one where the run was stopped.
        resume(&mut self.state, true).await?;
        let round = self.tools.close_calls(&mut self.state, status).await?;
        let mut events = round.events;
        let request = self.model.record_failure(&mut self.state.progress, error.as_ref());
        let usage = request.as_ref().map(|request| request.usage).unwrap_or_default();
        let interrupted = self.model.take_interrupted();
        let interrupted = interrupted.filter(|_| status == RunStatus::Cancelled);
        let kept = interrupted.and_then(|it| interrupted_message(self.run, it, usage));
        let (kept, kept_events) = kept.unzip();
        events.extend(kept_events.into_iter().flatten());
        events.extend(self.model.failure_events(request.as_ref()));
        if let Some(error) = &error {
            events.push(NewEvent::new(&EventBody::Error { error: error.clone() }));
        }
        if self.state.progress.spent.usage != Usage::default() {
            events.push(self.state.progress.usage_event());
        }
        let (limited, output_text, output) = (None, String::new(), None);
        let outcome = Outcome { stop_reason, limited, output_text, error, output };
        events.push(idle_event(&outcome));
        let mut messages = Vec::new();
        // A run that a message interrupts before its first step: the agent must know what it was asked.
        if status == RunStatus::Cancelled && !self.state.writer.is_begun() {
            let attempt = self.run.claim.fence.attempt;
            events.insert(0, NewEvent::new(&EventBody::StatusRunning { attempt }));
            messages.push(first_message(&self.run.claim)?);
        }
        if !round.results.is_empty() {
            messages.push(new_user_message(user_message(history::results(&round.results)?)));
        }
        messages.extend(kept);
        let writer = &mut self.state.writer;
        let step = StepCommit {
            recorded_message_seq: writer.last_message_seq(),
            recorded: &round.records,
            state_changes: &round.state_changes,
            events: &events,
            request: request.as_ref(),
            dequeues: !writer.is_begun(),
            settles: Some((status, &outcome)),
            ..StepCommit::default()
        };
        writer.store(&messages, &step).await
    }

    /// Releases the run. A run that failed here may itself be the cause, so it counts as a takeover.
    /// `&mut`, because calls that are being executed cannot be shared between threads.
    async fn release(&mut self, has_failed: bool) -> Result<(), StopCause> {
        let fence = self.run.claim.fence;
        let work = async |conn: &mut _| Ok(release(conn, fence, has_failed).await?);
        in_time(self.run.services.pool.with(work)).await
    }
}
