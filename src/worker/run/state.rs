//! The state of a run that all its parts work on.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::OwnedSemaphorePermit;

use super::context::RunContext;
use super::pending_step::Acceptance;
use super::progress::Progress;
use super::slot::Slot;
use super::step_writer::StepWriter;
use super::stop_cause::StopCause;
use crate::agent::Step;

/// The state of a run that all its parts work on.
#[derive(Debug)]
pub(in crate::worker) struct RunState<'a> {
    pub(in crate::worker) run: &'a RunContext<'a>,
    pub(in crate::worker) slot: &'a mut Slot,
    pub(in crate::worker) progress: Progress<'a>,
    pub(in crate::worker) writer: StepWriter<'a>,
}

impl<'a> RunState<'a> {
    pub(in crate::worker) fn new(
        run: &'a RunContext<'a>,
        acceptance: Option<Acceptance<'a>>,
        slot: &'a mut Slot,
    ) -> Self {
        Self { run, slot, progress: Progress::new(run), writer: StepWriter::new(run, acceptance) }
    }

    /// Waits until the history of the run may be read, without a slot while no further history fits. A
    /// sub-agent does not wait, because its parent waits for it.
    pub(in crate::worker) async fn wait_for_memory(
        &mut self,
    ) -> Result<Option<OwnedSemaphorePermit>, StopCause> {
        if self.run.claim.parent_session.is_some() {
            return Ok(None);
        }
        let memory = Arc::clone(self.slot.memory());
        loop {
            let permit = self.run.signals.unless_draining(memory.read()).await?;
            if permit.is_some() {
                return Ok(permit);
            }
            self.slot.yield_to_others();
            let slot = &mut *self.slot;
            let room = async {
                memory.room().await;
                slot.reacquire().await;
            };
            self.run.signals.unless_draining(room).await?;
        }
    }

    /// Counts the memory of the history.
    pub(in crate::worker) fn count_history(&mut self) {
        self.slot.count_history(self.writer.transcript.size());
    }

    /// Gives the slot to a queued run if the time slice of this one has ended, and waits for the next one.
    /// A suspect that has made progress is no longer one.
    pub(in crate::worker) async fn share_slot(&mut self) -> Result<(), StopCause> {
        if self.writer.has_progressed() {
            self.slot.end_isolation();
        }
        self.count_history();
        let is_finished = matches!(self.progress.agent.step(), Step::Finish(_));
        if is_finished || !self.slot.end_time_slice() {
            return Ok(());
        }
        self.writer.finish().await?;
        let since = Instant::now();
        self.run.signals.unless_draining(self.slot.reacquire()).await?;
        self.progress.exclude(since.elapsed());
        Ok(())
    }
}
