//! The claim of runs: queued runs, runs whose lease expired, and runs whose calls were answered.

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgConnection;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::give_up::{GIVE_UP_AFTER, fail_unread};
use super::worker::Worker;
use crate::bus::HandOver;
use crate::domain::claim::{Claimed, since_boot};
use crate::faults::{self, Bug};
use crate::metrics::ClaimedFrom;
use crate::spans::OpenSpan;
use crate::store::StoreError;
use crate::store::claim::{Claims, MAX_TAKEOVERS, claim_expired, claim_queued, claim_woken};
use crate::store::retry::in_time;
use crate::worker::run::driver::drive;
use crate::worker::run::slot::Slot;
use crate::worker::run::spans::{begin_run_span, log_span};

/// The interval at which each process checks for unannounced work and expired leases.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of runs that one statement claims.
const CLAIM_BATCH: usize = 16;

/// The state of the runs to claim.
#[derive(Debug, Clone, Copy)]
enum ClaimSource {
    Queued,
    /// The lease has expired.
    Expired,
    /// The calls that the run waited for were answered.
    Answered,
}

impl ClaimSource {
    /// The sources that may not have been announced.
    const UNANNOUNCED: [Self; 2] = [Self::Expired, Self::Answered];
}

impl From<ClaimSource> for ClaimedFrom {
    fn from(source: ClaimSource) -> Self {
        match source {
            ClaimSource::Queued => Self::Queue,
            ClaimSource::Expired => Self::ExpiredLease,
            ClaimSource::Answered => Self::Wait,
        }
    }
}

impl Worker {
    /// Drives the runs that requests of this process hand over.
    pub(super) async fn take_handed_over(
        self: &Arc<Self>,
        handed: &mut UnboundedReceiver<HandOver>,
    ) {
        while let Some(HandOver { run, slot, asked_at }) = handed.recv().await {
            self.services.metrics.runs_claimed(ClaimedFrom::HandOver, 1);
            self.spawn(run, asked_at, Some(slot));
        }
    }

    /// Claims queued runs until `shutdown` is cancelled. It is checked between two claims only: a run
    /// that was claimed and then dropped would wait until its lease expires.
    pub(super) async fn claim_loop(self: &Arc<Self>, shutdown: &CancellationToken) {
        while let Some(Ok(slot)) =
            shutdown.run_until_cancelled(Arc::clone(self.slots.free()).acquire_owned()).await
        {
            // Registered before the claim: work that is announced during the claim is not missed.
            let announced = self.services.bus.work();
            if self.claim_and_spawn(ClaimSource::Queued, slot).await > 0 {
                continue;
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                // The announcement may be of a released run.
                () = announced => self.claim_unannounced().await,
                () = sleep(sweep_interval()), if !faults::has(Bug::NoPoll) => {}
            }
        }
    }

    /// Claims runs that no worker holds, if there is a free slot.
    async fn claim_unannounced(self: &Arc<Self>) {
        for source in ClaimSource::UNANNOUNCED {
            if let Ok(slot) = Arc::clone(self.slots.free()).try_acquire_owned() {
                self.claim_and_spawn(source, slot).await;
            }
        }
    }

    /// Claims runs whose lease expired and runs that were answered, however long the queue is: the
    /// sweep waits for a slot in the same line as the claim of queued runs.
    pub(super) async fn sweep_loop(self: &Arc<Self>, shutdown: &CancellationToken) {
        if faults::has(Bug::NoPoll) {
            return;
        }
        let mut sweep = interval(sweep_interval());
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while shutdown.run_until_cancelled(sweep.tick()).await.is_some() {
            for source in ClaimSource::UNANNOUNCED {
                // A claim that finds no run releases its slot at once.
                let slot = Arc::clone(self.slots.free()).acquire_owned();
                let Some(Ok(slot)) = shutdown.run_until_cancelled(slot).await else { return };
                self.claim_and_spawn(source, slot).await;
            }
        }
    }

    /// Claims as many runs as there are free slots, drives them and returns their number.
    async fn claim_and_spawn(
        self: &Arc<Self>,
        source: ClaimSource,
        slot: OwnedSemaphorePermit,
    ) -> usize {
        let (asked_at, claims) = in_time(self.claim(source)).await.unwrap_or_else(|error| {
            tracing::warn!(%error, ?source, "claim of runs failed");
            <(Duration, Claims)>::default()
        });
        let claimed = claims.runs.len();
        self.services.metrics.runs_claimed(source.into(), claimed);
        let mut first = Some(slot);
        for run in claims.runs {
            // Requests may have taken slots meanwhile. One run too many is better than a claimed run
            // that is not driven and whose lease is not renewed.
            let slot =
                first.take().or_else(|| Arc::clone(self.slots.free()).try_acquire_owned().ok());
            self.spawn(run, asked_at, slot);
        }
        for run in claims.unreadable.iter().filter(|run| run.takeovers > MAX_TAKEOVERS) {
            // Boxed, because the future is large and rarely needed.
            Box::pin(fail_unread(&self.services, run.session_id, run.fence)).await;
        }
        claimed
    }

    /// Claims runs. Returns them with a time since boot before the claim, from which their leases
    /// are measured.
    async fn claim(&self, source: ClaimSource) -> Result<(Duration, Claims), StoreError> {
        let limit = self.slots.free().available_permits().min(CLAIM_BATCH - 1) + 1;
        let limit = i64::try_from(limit).unwrap_or(1);
        let claim = async |conn: &mut PgConnection| match source {
            ClaimSource::Queued => self.claim_queued(conn, limit).await,
            ClaimSource::Expired => {
                #[cfg(feature = "faults")]
                crate::store::injected_bugs::expire_by_process_clock(&mut *conn).await?;
                claim_expired(conn, self.id, limit).await
            }
            ClaimSource::Answered => claim_woken(conn, self.id, limit).await,
        };
        let claim_at = async |conn: &mut PgConnection| {
            let asked_at = since_boot();
            Ok((asked_at, claim(conn).await?))
        };
        self.services.pool.with(claim_at).await
    }

    /// Claims the runs first that runs of this process wait for.
    async fn claim_queued(
        &self,
        conn: &mut PgConnection,
        limit: i64,
    ) -> Result<Claims, StoreError> {
        if let Some(awaited) = self.services.awaited.list() {
            let claims = claim_queued(conn, self.id, Some(&awaited), limit).await?;
            if !claims.runs.is_empty() {
                return Ok(claims);
            }
        }
        claim_queued(conn, self.id, None, limit).await
    }

    fn spawn(
        self: &Arc<Self>,
        run: Claimed,
        asked_at: Duration,
        slot: Option<OwnedSemaphorePermit>,
    ) {
        let worker = Arc::clone(self);
        self.runs.spawn(async move {
            let mut slot = worker.slots.of_run(slot);
            let span = log_span(&run);
            let others_wait = worker.drive(run, asked_at, &mut slot).instrument(span).await;
            drop(slot);
            if others_wait {
                worker.services.bus.wake_worker();
            }
        });
    }

    /// Drives a run. Returns true if another run may have waited for it.
    async fn drive(&self, mut run: Claimed, asked_at: Duration, slot: &mut Slot) -> bool {
        let services = &self.services;
        let mut span = begin_run_span(services.metrics.spans(), &run);
        // The spans of requests and calls are children of the span of the run.
        run.options.trace = span.as_ref().and_then(OpenSpan::place).or(run.options.trace);
        let (run_id, session_id) = (run.fence.run_id, run.session_id);
        if run.takeovers > GIVE_UP_AFTER {
            fail_unread(services, session_id, run.fence).await;
            return true;
        }
        let (signals, _registration) = self.active.register(run_id, asked_at, &self.shutdown);
        let _active = services.metrics.active_run();
        if run.is_cancelled {
            signals.cancel.cancel();
        }
        // Boxed, because the future is large.
        let others_wait = Box::pin(drive(services, run, signals, slot, span.as_mut())).await;
        // Previews of a run that was released are still open.
        services.bus.end_previews(session_id, run_id);
        others_wait
    }
}

/// The sweep interval with jitter: processes that started together do not sweep together for long.
fn sweep_interval() -> Duration {
    SWEEP_INTERVAL.mul_f64(0.9 + 0.1 * fastrand::f64())
}
