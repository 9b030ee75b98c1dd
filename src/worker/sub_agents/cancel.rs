//! Cancellation of sub-agents whose parent run ends first.

use sqlx::Connection as _;

use crate::domain::call_end::EndReason;
use crate::domain::run_status::RunStatus;
use crate::domain::tool::CallState;
use crate::store::runs::Cancellation;
use crate::store::sub_agents::{StoppedSubAgent, stop};
use crate::worker::run::context::RunContext;
use crate::worker::run::stop_cause::StopCause;
use crate::worker::services::Services;
use crate::worker::tool_round::plan::ToolRound;

/// The result of a call whose sub-agent was cancelled with its run.
const STOPPED: &str = "Cancelled: the sub-agent was stopped together with the run that waited for \
    it. Its effects up to then remain.";

/// Cancels the sub-agent of a call, because the run of the call ends.
pub(in crate::worker) async fn cancel_sub_agent(
    run: &RunContext<'_>,
    round: &mut ToolRound<'_>,
    position: usize,
    reason: EndReason,
) -> Result<(), StopCause> {
    let Some(Some(row)) = round.open(position) else { return Ok(()) };
    let Some(run_id) = row.sub_agent_run.filter(|_| row.state == CallState::Started) else {
        return Ok(());
    };
    let pool = &run.services.pool;
    let cancel = |_| {
        pool.with(async |conn| {
            let mut transaction = conn.begin().await?;
            let stopped = stop(&mut transaction, run_id).await?;
            transaction.commit().await?;
            Ok(stopped)
        })
    };
    if let Some(stopped) = run.retry(cancel).await? {
        announce(run.services, stopped);
    }
    round.interrupt(position, reason, STOPPED);
    Ok(())
}

/// Notifies readers, and the worker that must act on the cancellation.
fn announce(services: &Services, stopped: StoppedSubAgent) {
    let StoppedSubAgent { session_id, run_id, cancellation, frames } = stopped;
    services.bus.publish(session_id, frames);
    match cancellation {
        Cancellation::Requested | Cancellation::Repeated => services.bus.cancel(run_id),
        Cancellation::Unclaimed => services.bus.announce_work(),
        Cancellation::Queued => services.metrics.run_settled(RunStatus::Cancelled),
        Cancellation::Settled => {}
    }
}
