//! Stopping sub-agents whose parent ends first.

use sqlx::Connection as _;

use crate::domain::run::RunStatus;
use crate::domain::tool::CallState;
use crate::store::runs::Cancellation;
use crate::store::sub_agents::{StoppedChild, stop};
use crate::worker::run::database_retry::{Patience, in_time};
use crate::worker::run::driver::Driver;
use crate::worker::run::stop_cause::Halt;
use crate::worker::tool_round::plan::Round;

/// What the model reads of a call whose sub-agent was stopped with its run.
const STOPPED: &str = "Cancelled: the sub-agent was stopped together with the run that waited for \
    it. What it had done by then stays done.";

impl Driver<'_> {
    /// Stops the sub-agent of a call whose run ends first.
    pub(in crate::worker) async fn close_task(
        &self,
        round: &mut Round<'_>,
        position: usize,
    ) -> Result<(), Halt> {
        let Some(Some(row)) = round.open(position) else { return Ok(()) };
        let Some(run_id) = row.child_run.filter(|_| row.state == CallState::Started) else {
            return Ok(());
        };
        let mut patience = Patience::default();
        let stopped = loop {
            let asked = async {
                let mut conn = self.worker.parts.pool.acquire().await?;
                let mut transaction = conn.begin().await?;
                let stopped = stop(&mut transaction, run_id).await?;
                transaction.commit().await?;
                conn.give_back();
                Ok::<_, Halt>(stopped)
            };
            match in_time(asked).await {
                Ok(stopped) => break stopped,
                Err(halt) => self.wait_out(&mut patience, halt).await?,
            }
        };
        if let Some(stopped) = stopped {
            self.announce_stop(stopped);
        }
        round.end(position, CallState::Interrupted, STOPPED);
        Ok(())
    }

    /// Tells readers, and the worker that has to do something about it.
    fn announce_stop(&self, stopped: StoppedChild) {
        let StoppedChild { session_id, run_id, met, frames } = stopped;
        let parts = &self.worker.parts;
        parts.bus.publish(session_id, frames);
        match met {
            Cancellation::Requested | Cancellation::Repeated => parts.bus.cancel(run_id),
            Cancellation::Unheld => parts.bus.announce_work(),
            Cancellation::Queued => parts.metrics.run_settled(RunStatus::Cancelled),
            Cancellation::Settled => {}
        }
    }
}
