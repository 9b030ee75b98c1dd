//! The calls of a run that ends before they are answered.

use super::execute::ToolRunner;
use super::ledger::{AfterCrash, after_crash, read_ledger};
use super::plan::{Closing, RoundResults, ToolRound};
use crate::domain::call_end::RunEnd;
use crate::domain::run_status::RunStatus;
use crate::domain::suspicion::CRASH_LOOP_AFTER;
use crate::domain::tool::{CallState, ToolCall};
use crate::store::stopping::find_canceller;
use crate::worker::run::state::RunState;
use crate::worker::run::stop_cause::StopCause;
use crate::worker::sub_agents::cancel::cancel_sub_agent;

impl ToolRunner<'_> {
    /// Cancels the calls that are being executed.
    pub(in crate::worker) fn cancel_calls(&self) {
        self.context.stop.cancel();
    }

    /// Answers the open calls, because the run ends with this status.
    pub(in crate::worker) async fn close_calls(
        &self,
        state: &mut RunState<'_>,
        status: RunStatus,
    ) -> Result<RoundResults, StopCause> {
        let calls = state.progress.open_calls();
        if calls.is_empty() {
            return Ok(RoundResults::default());
        }
        let mut round = ToolRound::new(&calls, read_ledger(state).await?);
        let closing = self.closing(status).await?;
        for (position, call) in calls.iter().enumerate() {
            self.close_change(&mut round, position, call).await;
            cancel_sub_agent(self.run, &mut round, position, closing.end.reason()).await?;
        }
        round.close(closing);
        Ok(round.into_results().with_references(&calls, self.run.settings()))
    }

    /// The cause for which the run ends.
    async fn closing(&self, status: RunStatus) -> Result<Closing, StopCause> {
        let (run, claim) = (self.run, &self.run.claim);
        // A run that was claimed only to settle it lost the worker that executed its calls.
        let is_crash_loop = claim.takeovers >= CRASH_LOOP_AFTER;
        let is_driven = !claim.is_cancelled && !is_crash_loop;
        if status != RunStatus::Cancelled {
            return Ok(Closing { end: RunEnd::Failure, is_driven });
        }
        let pool = &run.services.pool;
        let find = |_| pool.with(async |conn| Ok(find_canceller(conn, run.run_id()).await?));
        Ok(Closing { end: run.retry(find).await?, is_driven })
    }

    /// Ends a call whose change of a file was made. Reading the file also removes the temporary file
    /// that an unfinished change left.
    async fn close_change(&self, round: &mut ToolRound<'_>, position: usize, call: &ToolCall) {
        let Some(Some(row)) = round.open(position) else { return };
        if row.state != CallState::Started {
            return;
        }
        let now = self.current_hash(call, Some(row)).await;
        if let AfterCrash::Done(text) = after_crash(Some(row), now.as_ref()) {
            round.end_applied(position, text);
        }
    }
}
