//! Lease renewal. A worker that cannot renew its leases stops writing before another worker can
//! claim its runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::active_runs::ActiveRuns;
use super::lost_leases::LostLeases;
use crate::domain::claim::since_boot;
use crate::domain::ids::{RunId, WorkerId};
use crate::faults::{self, Point};
use crate::store::StoreError;
use crate::store::connections::Connections;
use crate::store::leases::{renew, take_back_takeovers};
use crate::tools::lease::LeaseClock;

const INTERVAL: Duration = Duration::from_secs(3);
/// Pause after a failed renewal: a lease that is not renewed in time costs its run.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// The heartbeat of a process: one statement renews the leases of all its runs.
#[derive(Debug)]
pub(in crate::worker) struct Heartbeat {
    pub(in crate::worker) worker: WorkerId,
    /// A pool of its own, so that a busy pool never delays a renewal.
    pub(in crate::worker) pool: Connections,
    pub(in crate::worker) active: Arc<ActiveRuns>,
    pub(in crate::worker) lost: LostLeases,
    /// The time of the last renewal that succeeded, for readiness checks.
    pub(in crate::worker) lease: LeaseClock,
}

impl Heartbeat {
    /// Renews the leases of all runs of this process until `stop` is cancelled.
    pub(in crate::worker) async fn run(self, stop: CancellationToken) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
                () = self.active.renew_now.notified() => {}
            }
            faults::point(Point::Heartbeat).await;
            let sent_at = since_boot();
            match timeout(INTERVAL, self.renew(sent_at)).await {
                Ok(Ok(())) => self.lease.renewed(sent_at),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "lease renewal failed");
                    ticks.reset_after(RETRY_INTERVAL);
                }
                Err(_) => {
                    tracing::warn!(seconds = INTERVAL.as_secs(), "lease renewal timed out");
                    ticks.reset_after(RETRY_INTERVAL);
                }
            }
            let runs = self.active.lose_expired();
            if runs > 0 {
                tracing::error!(runs, "leases not renewed in time, runs abandoned");
            }
        }
    }

    async fn renew(&self, sent_at: Duration) -> Result<(), StoreError> {
        // Read before the renewal: a run that is claimed in between does not count as lost.
        let held = self.active.ids();
        let renewed = self.pool.with(async |conn| renew(conn, self.worker, &held).await).await?;
        for run in &renewed {
            self.active.renewed(run.run_id, sent_at);
            if run.is_cancelled {
                self.active.cancel(run.run_id);
            }
        }
        let is_lost = |id: &RunId| !renewed.iter().any(|run| run.run_id == *id);
        for run_id in held.into_iter().filter(is_lost) {
            self.active.lose(run_id);
        }
        self.take_back_takeovers().await
    }

    /// Reports that this worker is alive although it lost leases: no run of them killed it.
    async fn take_back_takeovers(&self) -> Result<(), StoreError> {
        let lost = self.lost.list();
        if lost.is_empty() {
            return Ok(());
        }
        let take_back = async |conn: &mut _| take_back_takeovers(conn, self.worker, &lost).await;
        self.pool.with(take_back).await?;
        self.lost.remove(&lost);
        Ok(())
    }
}
