//! The writer of a run: one step at a time.
//!
//! The run waits for the commit of a step, with one exception: it may send its next request to the
//! model meanwhile ([`StepWriter::begin`]).

use std::mem::take;

use sqlx::PgConnection;

use super::context::RunContext;
use super::pending_step::{Acceptance, Commit, OwnedStep, PendingStep, StepEffects};
use super::step_writing::StepWriting;
use super::stop_cause::StopCause;
use crate::domain::claim::{Claimed, Permissions};
use crate::domain::event::NewEvent;
use crate::domain::message::Role;
use crate::domain::permission::{PermissionMode, Rule};
use crate::store::retry::{Retry, in_time};
use crate::store::step::{Committed, NewMessage, StepCommit};
use crate::worker::transcript::Transcript;

/// Commits the steps of a run and keeps the transcript equal to the stored history.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(in crate::worker) struct StepWriter<'a> {
    run: &'a RunContext<'a>,
    pub(in crate::worker) transcript: Transcript,
    /// The number of committed steps.
    steps: i32,
    /// The number of those with progress that this worker has committed.
    steps_with_progress: u32,
    /// The user message is in the history and the run is out of the queue.
    is_begun: bool,
    /// The run has settled.
    has_settled: bool,
    /// Other runs of the session wait for this one.
    others_wait: bool,
    /// The owner of the session has a budget.
    is_budgeted: bool,
    /// The permissions of the session: those of the claim, and the mode as of the last step.
    permissions: Permissions,
    /// The number of messages in the history when the run was claimed.
    claimed_seq: i32,
    /// This process has seen the run before this one settle.
    follows_settled: bool,
    /// The run has started before its claim is known.
    is_early: bool,
    /// The step that is being committed while the run goes on.
    pending: Option<PendingStep<'a>>,
    /// A step was lost after the run had gone on with it.
    has_lost_step: bool,
}

impl<'a> StepWriter<'a> {
    pub(in crate::worker) fn new(
        run: &'a RunContext<'a>,
        acceptance: Option<Acceptance<'a>>,
    ) -> Self {
        let claim = &run.claim;
        let mut transcript = run.services.transcripts.take(claim.session_id);
        Self {
            run,
            follows_settled: transcript.begin_run(),
            transcript,
            steps: claim.steps,
            is_begun: claim.begun.is_some(),
            steps_with_progress: 0,
            has_settled: false,
            others_wait: false,
            is_budgeted: claim.is_budgeted,
            permissions: claim.permissions.clone(),
            claimed_seq: claim.last_message_seq,
            is_early: false,
            pending: acceptance.map(PendingStep::acceptance),
            has_lost_step: false,
        }
    }

    pub(in crate::worker) fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// Notes that stored messages of the run were found.
    pub(in crate::worker) fn set_begun(&mut self) {
        self.is_begun = true;
    }

    pub(in crate::worker) fn has_progressed(&self) -> bool {
        self.steps_with_progress > 0
    }

    pub(in crate::worker) fn others_wait(&self) -> bool {
        self.others_wait
    }

    /// The transcript for the next run of the session; none if it has a step that was lost, or thinking
    /// that the next run must not send.
    pub(in crate::worker) fn into_transcript(mut self) -> Option<Transcript> {
        if self.has_settled && !self.others_wait {
            self.transcript.set_settled();
        }
        let is_valid = !self.has_lost_step && !self.run.has_fallen_back();
        is_valid.then_some(self.transcript)
    }

    pub(in crate::worker) fn is_budgeted(&self) -> bool {
        self.is_budgeted
    }

    /// The permission mode of the session as of the last step: a client may change it at any time.
    pub(in crate::worker) fn permission_mode(&self) -> Option<PermissionMode> {
        self.permissions.mode
    }

    /// The rules that users had added with their decisions when the run was claimed.
    pub(in crate::worker) fn remembered(&self) -> &[Rule] {
        &self.permissions.remembered
    }

    /// The number of messages in the history when the run was claimed.
    pub(in crate::worker) fn claimed_seq(&self) -> i32 {
        self.claimed_seq
    }

    /// Starts a run whose message is being accepted, if the transcript seems to have all messages
    /// before it: of the last run in this process, or none, for the first message of a session.
    pub(in crate::worker) fn starts_early(&mut self) -> bool {
        let is_complete = self.follows_settled || self.claimed_seq == 1;
        self.is_early = self.pending.is_some() && is_complete;
        if self.is_early {
            self.transcript.push(Role::User, &self.run.claim.input);
        }
        self.is_early
    }

    /// The number of the last stored message.
    pub(in crate::worker) fn last_message_seq(&self) -> i32 {
        self.transcript.seq()
    }

    /// Commits a step that has only events.
    pub(in crate::worker) async fn store_events(
        &mut self,
        events: &[NewEvent],
    ) -> Result<(), StopCause> {
        self.store(&[], &StepCommit { events, ..StepCommit::default() }).await
    }

    /// Commits a step, publishes its events and appends its messages to the transcript.
    pub(in crate::worker) async fn store(
        &mut self,
        messages: &[NewMessage],
        step: &StepCommit<'_>,
    ) -> Result<(), StopCause> {
        self.finish().await?;
        let step = StepCommit { messages, ..*step };
        // Boxed, because the future is large and a run waits most of the time for the model.
        let committed = Box::pin(self.writing()?.commit(&step)).await?;
        self.complete(committed, StepEffects::of(&step));
        self.append(messages);
        Ok(())
    }

    /// Begins to commit a step whose results the run needs only for its next request. The transcript
    /// has the messages of the step at once. [`Self::finish`] waits for the commit, which goes on
    /// only while it is polled: the run must not wait for anything else without polling it.
    pub(in crate::worker) async fn begin(&mut self, step: OwnedStep) -> Result<(), StopCause> {
        self.finish().await?;
        let writing = self.writing()?;
        self.append(&step.messages);
        self.pending.insert(PendingStep::new(writing, step)).start().await;
        Ok(())
    }

    /// True if a step is being committed.
    pub(in crate::worker) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// True if a step was lost after the run had gone on with it. The request that was sent with it
    /// has no message to belong to.
    pub(in crate::worker) fn has_lost_step(&self) -> bool {
        self.has_lost_step
    }

    /// Waits for the commit of the step that is being committed, if there is one, and publishes its
    /// events. Cancel safe.
    pub(in crate::worker) async fn finish(&mut self) -> Result<(), StopCause> {
        let Some(pending) = &mut self.pending else { return Ok(()) };
        let committed = pending.committed().await;
        let Some(pending) = self.pending.take() else { return Ok(()) };
        match committed {
            Ok(Commit::Step(committed)) => {
                self.complete(committed, pending.effects);
                Ok(())
            }
            Ok(Commit::Accepted(claim)) => self.complete_claim(*claim),
            Err(cause) => {
                // It has messages that the database may not have, and so has the last request.
                self.transcript = Transcript::default();
                self.has_lost_step = true;
                Err(cause)
            }
        }
    }

    /// Takes the facts of the claim that the run has started without.
    fn complete_claim(&mut self, claim: Claimed) -> Result<(), StopCause> {
        self.permissions = claim.permissions;
        self.is_budgeted = claim.is_budgeted;
        self.claimed_seq = claim.last_message_seq;
        if claim.model_settings != self.run.claim.model_settings {
            return Err(StopCause::OtherSettings);
        }
        if take(&mut self.is_early) && self.transcript.seq() != self.claimed_seq {
            self.transcript = Transcript::default();
            return Err(StopCause::OtherHistory);
        }
        Ok(())
    }

    /// The next step to write.
    fn writing(&self) -> Result<StepWriting<'a>, StopCause> {
        if self.run.signals.lost.is_cancelled() {
            return Err(StopCause::LeaseLost);
        }
        Ok(StepWriting { run: self.run, steps: self.steps, is_budgeted: self.is_budgeted })
    }

    /// Applies the result of a committed step.
    fn complete(&mut self, committed: Committed, step: StepEffects) {
        let services = self.run.services;
        self.steps += 1;
        if let Some(status) = step.settles {
            services.metrics.run_settled(status);
        }
        self.permissions.mode = step.permission_mode.or(committed.permission_mode);
        self.others_wait = committed.queued > 0;
        self.is_budgeted = committed.is_budgeted;
        self.is_begun |= step.dequeues;
        self.steps_with_progress += u32::from(step.is_progress);
        self.has_settled = step.settles.is_some();
        services.bus.publish(self.run.session_id(), committed.frames);
    }

    fn append(&mut self, messages: &[NewMessage]) {
        for message in messages {
            self.transcript.push(message.message.role, message.message.content.as_str());
        }
    }

    /// Reads the messages that the transcript does not have yet.
    pub(in crate::worker) async fn reload_transcript(&mut self) -> Result<(), StopCause> {
        let mut retry = Retry::default();
        loop {
            match in_time(self.try_reload()).await {
                Ok(()) => return Ok(()),
                Err(error) => self.run.pause(&mut retry, error).await?,
            }
        }
    }

    /// Reads the history again if the message of the run refers to files: the transcript then has their
    /// contents in place of the references.
    pub(super) async fn reload_files(&mut self) -> Result<(), StopCause> {
        if !self.run.claim.has_files() {
            return Ok(());
        }
        self.transcript.reset();
        self.reload_transcript().await
    }

    async fn try_reload(&mut self) -> Result<(), StopCause> {
        let (transcript, session_id) = (&mut self.transcript, self.run.session_id());
        let load = async |conn: &mut PgConnection| transcript.catch_up(conn, session_id).await;
        Ok(self.run.services.pool.with(load).await?)
    }
}
