//! The commit of one step: fenced by the attempt, and exactly once.

use sqlx::PgConnection;

use super::context::RunContext;
use super::stop_cause::StopCause;
use crate::faults::{self, Bug, Point};
use crate::store::group_commit::Grouped;
#[cfg(feature = "faults")]
use crate::store::injected_bugs::commit;
#[cfg(not(feature = "faults"))]
use crate::store::step::commit;
use crate::store::step::{
    CommitStatus, Committed, EncodedStep, StepCommit, Written, commit_status,
};

/// A step to write: the one that follows the first `steps` ones of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepWriting<'a> {
    pub(super) run: &'a RunContext<'a>,
    pub(super) steps: i32,
    pub(super) is_budgeted: bool,
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
