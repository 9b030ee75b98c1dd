//! Lease renewal. A worker that cannot renew its leases stops writing before another worker can
//! claim its runs.

use std::collections::HashSet;
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

#[derive(PartialEq, Eq)]
enum Renewal {
    Whole,
    /// Some runs were locked: their leases are to be renewed soon.
    Partial,
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
                Ok(Ok(renewal)) => {
                    self.lease.renewed(sent_at);
                    if renewal == Renewal::Partial {
                        ticks.reset_after(RETRY_INTERVAL);
                    }
                }
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

    async fn renew(&self, sent_at: Duration) -> Result<Renewal, StoreError> {
        // Read before the renewal: a run that is claimed in between does not count as lost.
        let held = self.active.ids();
        let leases = self.pool.with(async |conn| renew(conn, self.worker, &held).await).await?;
        for lease in &leases {
            if lease.is_renewed {
                self.active.renewed(lease.run_id, sent_at);
            }
            if lease.is_cancelled {
                self.active.cancel(lease.run_id);
            }
        }
        let ours: HashSet<RunId> = leases.iter().map(|lease| lease.run_id).collect();
        for run_id in held.into_iter().filter(|run_id| !ours.contains(run_id)) {
            self.active.lose(run_id);
        }
        self.take_back_takeovers().await?;
        let is_whole = leases.iter().all(|lease| lease.is_renewed);
        Ok(if is_whole { Renewal::Whole } else { Renewal::Partial })
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
