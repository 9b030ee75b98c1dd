//! Keeping leases. A worker that cannot renew them stops writing before anybody else may begin.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use crate::domain::ids::RunId;
use crate::faults::{self, Point};
use crate::store::StoreError;
use crate::store::claim::renew;
use crate::tools::lease::since_boot;
use crate::worker::Worker;

const EVERY: Duration = Duration::from_secs(3);
/// The pause after a renewal that failed: a lease that is not renewed in time costs its run.
const RETRY_EVERY: Duration = Duration::from_millis(500);

/// Renews the leases of all runs of this process until it is told to stop.
pub(in crate::worker) async fn heartbeat(worker: Arc<Worker>, stop: CancellationToken) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
            () = worker.beat_now.notified() => {}
        }
        faults::point(Point::Heartbeat).await;
        let asked_at = since_boot();
        match timeout(EVERY, beat(&worker)).await {
            Ok(Ok(())) => worker.lease.renewed(asked_at),
            Ok(Err(error)) => {
                tracing::warn!(%error, "leases could not be renewed");
                ticks.reset_after(RETRY_EVERY);
            }
            Err(_) => {
                tracing::warn!("renewing leases takes too long");
                ticks.reset_after(RETRY_EVERY);
            }
        }
        if !worker.lease.is_fresh() {
            let runs = worker.active.lose_all();
            if runs > 0 {
                tracing::error!(runs, "leases were not renewed in time; runs are let go");
            }
        }
    }
}

async fn beat(worker: &Worker) -> Result<(), StoreError> {
    // Noted before the leases are renewed: a run that comes in between is not taken for lost.
    let held = worker.active.ids();
    let mut conn = worker.parts.heartbeat_pool.acquire().await?;
    let renewed = renew(&mut conn, worker.id, &held).await?;
    conn.give_back();
    for run in renewed.iter().filter(|run| run.is_cancelled) {
        worker.active.cancel(run.run_id);
    }
    let is_lost = |id: &RunId| !renewed.iter().any(|run| run.run_id == *id);
    for run_id in held.into_iter().filter(is_lost) {
        worker.active.lose(run_id);
    }
    Ok(())
}
