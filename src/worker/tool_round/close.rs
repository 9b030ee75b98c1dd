//! The calls of a run that ends before they are answered.

use super::execute::ToolRunner;
use super::ledger::{AfterCrash, after_crash, read_ledger};
use super::plan::{RoundResults, ToolRound};
use crate::domain::tool::{CallState, ToolCall};
use crate::worker::run::state::RunState;
use crate::worker::run::stop_cause::StopCause;
use crate::worker::sub_agents::cancel::cancel_sub_agent;

impl ToolRunner<'_> {
    /// Cancels the calls that are being executed.
    pub(in crate::worker) fn cancel_calls(&self) {
        self.context.stop.cancel();
    }

    /// Answers the open calls, because the run ends.
    pub(in crate::worker) async fn close_calls(
        &self,
        state: &mut RunState<'_>,
    ) -> Result<RoundResults, StopCause> {
        let calls = state.progress.open_calls();
        if calls.is_empty() {
            return Ok(RoundResults::default());
        }
        let mut round = ToolRound::new(&calls, read_ledger(state).await?);
        for (position, call) in calls.iter().enumerate() {
            self.close_change(&mut round, position, call).await;
            cancel_sub_agent(self.run, &mut round, position).await?;
        }
        round.close();
        Ok(round.into_results())
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
