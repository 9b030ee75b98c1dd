//! The writer of a run: one step at a time, fenced by the attempt, and exactly once.
//!
//! The run waits for the commit of a step, with one exception: it may send its next request to the
//! model meanwhile ([`StepWriter::begin`]).

use sqlx::PgConnection;

use super::context::RunContext;
use super::pending_step::{OwnedStep, PendingStep, StepEffects};
use super::stop_cause::StopCause;
use crate::domain::event::NewEvent;
use crate::domain::permission::PermissionMode;
use crate::faults::{self, Bug, Point};
use crate::store::group_commit::Grouped;
#[cfg(feature = "faults")]
use crate::store::injected_bugs::commit;
use crate::store::retry::{Retry, in_time};
#[cfg(not(feature = "faults"))]
use crate::store::step::commit;
use crate::store::step::{
    CommitStatus, Committed, EncodedStep, NewMessage, StepCommit, Written, commit_status,
};
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
    /// Other runs of the session wait for this one.
    others_wait: bool,
    /// The owner of the session has a budget.
    is_budgeted: bool,
    permission_mode: Option<PermissionMode>,
    /// The step that is being committed while the run goes on.
    pending: Option<PendingStep<'a>>,
    /// A step was lost after the run had gone on with it.
    has_lost_step: bool,
}

impl<'a> StepWriter<'a> {
    pub(in crate::worker) fn new(run: &'a RunContext<'a>) -> Self {
        let claim = &run.claim;
        Self {
            run,
            transcript: run.services.transcripts.take(claim.session_id),
            steps: claim.steps,
            is_begun: claim.begun.is_some(),
            steps_with_progress: 0,
            others_wait: false,
            is_budgeted: claim.is_budgeted,
            permission_mode: claim.permissions.mode,
            pending: None,
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

    pub(in crate::worker) fn is_budgeted(&self) -> bool {
        self.is_budgeted
    }

    /// The permission mode of the session as of the last step: a client may change it at any time.
    pub(in crate::worker) fn permission_mode(&self) -> Option<PermissionMode> {
        self.permission_mode
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
            Ok(committed) => {
                self.complete(committed, pending.effects);
                Ok(())
            }
            Err(cause) => {
                // It has messages that the database may not have, and so has the last request.
                self.transcript = Transcript::default();
                self.has_lost_step = true;
                Err(cause)
            }
        }
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
        self.permission_mode = step.permission_mode.or(committed.permission_mode);
        self.others_wait = committed.queued > 0;
        self.is_budgeted = committed.is_budgeted;
        self.is_begun |= step.dequeues;
        self.steps_with_progress += u32::from(step.is_progress);
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

/// A step to write: the one that follows the first `steps` ones of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepWriting<'a> {
    run: &'a RunContext<'a>,
    steps: i32,
    is_budgeted: bool,
}

impl StepWriting<'_> {
    /// Commits the step, again while the database is unavailable.
    pub(super) async fn commit(self, step: &StepCommit<'_>) -> Result<Committed, StopCause> {
        let step = &StepCommit { is_budgeted: self.is_budgeted, ..*step };
        let committed = self.run.retry(|is_retry| self.try_commit(step, is_retry)).await?;
        let point = if step.settles.is_some() { Point::Settled } else { Point::StepStored };
        faults::point(point).await;
        Ok(committed)
    }

    /// Commits a step, unless an earlier try of it was committed although its answer was lost.
    async fn try_commit(
        self,
        step: &StepCommit<'_>,
        is_retry: bool,
    ) -> Result<Committed, StopCause> {
        let services = self.run.services;
        let committed = if is_retry || !may_share(step) {
            self.write_alone(step, is_retry).await?
        } else {
            match self.write_in_group(step).await? {
                Grouped::Done(Written::Committed(written)) => {
                    Some(written.with_events(step.events))
                }
                Grouped::Done(Written::Fenced) => None,
                Grouped::Done(Written::Skipped) | Grouped::NotWritten => {
                    self.write_alone(step, false).await?
                }
                Grouped::Unknown => self.write_alone(step, true).await?,
            }
        };
        committed.ok_or_else(|| {
            services.metrics.step_fenced();
            StopCause::LeaseLost
        })
    }

    async fn write_in_group(self, step: &StepCommit<'_>) -> Result<Grouped<Written>, StopCause> {
        let (session_id, fence) = (self.run.session_id(), self.run.claim.fence);
        let step = EncodedStep::of(session_id, fence, self.steps, step)?;
        Ok(self.run.services.group_commit.write(step).await?)
    }

    /// Commits a step in a transaction of its own.
    async fn write_alone(
        self,
        step: &StepCommit<'_>,
        is_retry: bool,
    ) -> Result<Option<Committed>, StopCause> {
        let (session_id, fence) = (self.run.session_id(), self.run.claim.fence);
        let committed = self.run.services.pool.with(async |conn| {
            let mut committed = None;
            if is_retry {
                committed = self.find_committed(conn).await?;
            }
            if committed.is_none() {
                committed = commit(conn, session_id, fence, self.steps, step).await?;
            }
            if committed.is_none() && is_retry {
                // The first try was still being executed.
                committed = self.find_committed(conn).await?;
            }
            Ok::<_, StopCause>(committed)
        });
        committed.await
    }

    /// The result of the current step, if an earlier try has committed it.
    async fn find_committed(self, conn: &mut PgConnection) -> Result<Option<Committed>, StopCause> {
        match commit_status(conn, self.run.claim.fence, self.steps).await? {
            CommitStatus::Absent => Ok(None),
            CommitStatus::Fenced => Err(StopCause::LeaseLost),
            CommitStatus::Committed { queued, is_budgeted, permission_mode } => {
                // Readers find its events in the database.
                self.run.services.bus.resync(self.run.session_id());
                let frames = Vec::new();
                Ok(Some(Committed { frames, queued, is_budgeted, permission_mode }))
            }
        }
    }
}

/// Returns true if a step may be written together with those of other runs.
fn may_share(step: &StepCommit<'_>) -> bool {
    let is_injected = [Bug::NoAttemptCheck, Bug::SplitCommit].into_iter().any(faults::has);
    step.is_one_statement() && !is_injected
}
