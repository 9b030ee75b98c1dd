//! The claim of runs: queued runs, runs whose lease expired, and runs whose calls were answered.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use sqlx::PgConnection;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::give_up::fail_unread;
use super::worker::Worker;
use crate::bus::HandOver;
use crate::domain::claim::{Claimed, since_boot};
use crate::domain::suspicion::{GIVEN_UP_AFTER, SUSPECTED_AFTER, Suspicion};
use crate::faults::{self, Bug};
use crate::metrics::ClaimedFrom;
use crate::spans::OpenSpan;
use crate::store::StoreError;
use crate::store::claim::{Claims, claim_expired, claim_queued, claim_woken};
use crate::store::retry::in_time;
use crate::worker::run::driver::{Driven, DrivenClaim, drive};
use crate::worker::run::slot::Slot;
use crate::worker::run::spans::{begin_run_span, log_span};
use crate::worker::titles::TitleTask;

/// The interval at which each process checks for unannounced work and expired leases.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The interval at which each process checks for suspects whose pause has ended.
const SUSPECT_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of runs that one statement claims.
const CLAIM_BATCH: usize = 16;

/// The state of the runs to claim.
#[derive(Debug, Clone, Copy)]
enum ClaimSource {
    Queued,
    /// The lease has expired.
    Expired(Suspicion),
    /// The calls that the run waited for were answered.
    Answered,
}

impl ClaimSource {
    /// The sources that may not have been announced.
    const UNANNOUNCED: [Self; 2] = [Self::Expired(Suspicion::None), Self::Answered];
}

impl From<ClaimSource> for ClaimedFrom {
    fn from(source: ClaimSource) -> Self {
        match source {
            ClaimSource::Queued => Self::Queue,
            ClaimSource::Expired(_) => Self::ExpiredLease,
            ClaimSource::Answered => Self::Wait,
        }
    }
}

/// A run to drive.
struct StartedRun {
    run: Claimed,
    /// The actual claim of a run that starts while its message is being accepted.
    accepted: Option<oneshot::Receiver<Box<Claimed>>>,
    /// A time since boot before the claim.
    asked_at: Duration,
}

/// The result of one claim.
struct Batch {
    claimed: usize,
    /// As many runs were claimed as one statement may, so that there may be more.
    is_full: bool,
}

impl Worker {
    /// Drives the runs that requests of this process hand over.
    pub(super) async fn take_handed_over(
        self: &Arc<Self>,
        handed: &mut UnboundedReceiver<HandOver>,
    ) {
        while let Some(HandOver { run, accepted, slot, asked_at }) = handed.recv().await {
            if accepted.is_none() {
                self.services.metrics.runs_claimed(ClaimedFrom::HandOver, 1);
            }
            let started = StartedRun { run, accepted, asked_at };
            self.spawn_started(started, self.slots.of_run(Some(slot)));
        }
    }

    /// Claims queued runs until `shutdown` is cancelled. It is checked between two claims only: a run
    /// that was claimed and then dropped would wait until its lease expires.
    pub(super) async fn claim_loop(self: &Arc<Self>, shutdown: &CancellationToken) {
        loop {
            if self.slots.are_taken() {
                // Runs may be waiting for a slot, until a claim shows that there are none.
                self.slots.set_queue(true);
            }
            let slot = shutdown.run_until_cancelled(self.slots.next()).await;
            let Some(Some(slot)) = slot else { return };
            // Registered before the claim: work that is announced during the claim is not missed.
            let announced = self.services.bus.work();
            let batch = self.claim_and_spawn(ClaimSource::Queued, slot).await;
            self.slots.set_queue(batch.is_full);
            if batch.claimed > 0 {
                self.services.bus.queue_changed();
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

    /// Claims runs that no worker holds, while there are free slots.
    async fn claim_unannounced(self: &Arc<Self>) {
        for source in ClaimSource::UNANNOUNCED {
            if let Ok(slot) = Arc::clone(self.slots.free()).try_acquire_owned() {
                self.claim_all(source, slot).await;
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
        let mut suspects_due_at = Instant::now();
        while shutdown.run_until_cancelled(sweep.tick()).await.is_some() {
            for source in ClaimSource::UNANNOUNCED {
                // A claim that finds no run releases its slot at once.
                let slot = Arc::clone(self.slots.free()).acquire_owned();
                let Some(Ok(slot)) = shutdown.run_until_cancelled(slot).await else { return };
                self.claim_all(source, slot).await;
            }
            // The next suspect follows soon after the one before it.
            if suspects_due_at <= Instant::now() || !self.isolation.is_unused() {
                suspects_due_at = Instant::now() + SUSPECT_INTERVAL;
                self.claim_suspects(shutdown).await;
            }
        }
    }

    /// Claims runs of a source, again while a batch is full and slots are free: after the death of a
    /// process with many runs, the next one has all of them at once.
    async fn claim_all(self: &Arc<Self>, source: ClaimSource, slot: OwnedSemaphorePermit) {
        let mut slot = Some(slot);
        while let Some(free) = slot {
            let batch = self.claim_and_spawn(source, free).await;
            slot = None;
            if batch.is_full {
                slot = Arc::clone(self.slots.free()).try_acquire_owned().ok();
            }
        }
    }

    /// Claims suspects one by one, as far as they may be executed at the same time. Those with less
    /// suspicion come first, because most of them are innocent.
    async fn claim_suspects(self: &Arc<Self>, shutdown: &CancellationToken) {
        for suspicion in [Suspicion::Suspected, Suspicion::Isolated] {
            while let Some(isolation) = self.isolation.permit(suspicion) {
                let slot = Arc::clone(self.slots.free()).acquire_owned();
                let Some(Ok(slot)) = shutdown.run_until_cancelled(slot).await else { return };
                let source = ClaimSource::Expired(suspicion);
                let (asked_at, mut runs) = self.claim_runs(source, 1).await;
                let Some(run) = runs.pop() else { break };
                tracing::warn!(
                    run.id = %run.fence.run_id, takeovers = run.takeovers,
                    "claimed a run during which several workers died"
                );
                let mut slot = self.slots.of_run(Some(slot));
                slot.isolate(isolation);
                self.spawn(run, asked_at, slot);
            }
        }
    }

    /// Claims as many runs as there are free slots and drives them.
    async fn claim_and_spawn(
        self: &Arc<Self>,
        source: ClaimSource,
        slot: OwnedSemaphorePermit,
    ) -> Batch {
        let limit = self.slots.free().available_permits().min(CLAIM_BATCH - 1) + 1;
        let (asked_at, runs) = self.claim_runs(source, limit).await;
        let claimed = runs.len();
        let mut first = Some(slot);
        for run in runs {
            // Requests may have taken slots meanwhile. One run too many is better than a claimed run
            // that is not driven and whose lease is not renewed.
            let slot =
                first.take().or_else(|| Arc::clone(self.slots.free()).try_acquire_owned().ok());
            self.spawn(run, asked_at, self.slots.of_run(slot));
        }
        Batch { claimed, is_full: claimed == limit }
    }

    /// Claims runs. Returns them with a time since boot before the claim, from which their leases
    /// are measured. Runs that cannot be read are not returned, and fail after several claims.
    async fn claim_runs(&self, source: ClaimSource, limit: usize) -> (Duration, Vec<Claimed>) {
        let (asked_at, claims) = in_time(self.claim(source, limit)).await.unwrap_or_else(|error| {
            tracing::warn!(%error, ?source, "claim of runs failed");
            <(Duration, Claims)>::default()
        });
        self.services.metrics.runs_claimed(source.into(), claims.runs.len());
        for run in claims.unreadable.iter().filter(|run| run.takeovers >= SUSPECTED_AFTER) {
            // Boxed, because the future is large and rarely needed.
            Box::pin(fail_unread(&self.services, run.session_id, run.fence)).await;
        }
        (asked_at, claims.runs)
    }

    async fn claim(
        &self,
        source: ClaimSource,
        limit: usize,
    ) -> Result<(Duration, Claims), StoreError> {
        let limit = i64::try_from(limit).unwrap_or(1);
        let claim = async |conn: &mut PgConnection| match source {
            ClaimSource::Queued => claim_queued(conn, self.id, limit).await,
            // After an outage of the database the heartbeat comes first: it reports the leases that
            // this worker lost, so that they do not count as its death.
            ClaimSource::Expired(_) if !self.services.lease.is_fresh() => Ok(Claims::default()),
            ClaimSource::Expired(suspicion) => {
                #[cfg(feature = "faults")]
                crate::store::injected_bugs::expire_by_process_clock(&mut *conn).await?;
                claim_expired(conn, self.id, suspicion, limit).await
            }
            ClaimSource::Answered => claim_woken(conn, self.id, limit).await,
        };
        let claim_at = async |conn: &mut PgConnection| {
            let asked_at = since_boot();
            Ok((asked_at, claim(conn).await?))
        };
        self.services.pool.with(claim_at).await
    }

    fn spawn(self: &Arc<Self>, run: Claimed, asked_at: Duration, slot: Slot) {
        self.spawn_started(StartedRun { run, accepted: None, asked_at }, slot);
    }

    fn spawn_started(self: &Arc<Self>, started: StartedRun, mut slot: Slot) {
        let worker = Arc::clone(self);
        self.runs.spawn(async move {
            let span = log_span(&started.run);
            let title = TitleTask::of(&started.run);
            let driven = worker.drive(started, &mut slot).instrument(span).await;
            drop(slot);
            if driven.others_wait {
                worker.services.bus.wake_worker();
            }
            if let Some(task) = title.filter(|_| driven.has_completed) {
                worker.make_title(task);
            }
        });
    }

    /// Makes a title for the session of a completed run. Nothing waits for it.
    fn make_title(self: &Arc<Self>, task: Box<TitleTask>) {
        let worker = Arc::clone(self);
        self.titles.spawn(async move {
            worker.titles.make(&worker.services, &task, &worker.shutdown).await;
        });
    }

    /// Drives a run.
    async fn drive(&self, started: StartedRun, slot: &mut Slot) -> Driven {
        let services = &self.services;
        let StartedRun { mut run, accepted, asked_at } = started;
        let mut span = begin_run_span(services.metrics.spans(), &run);
        // The spans of requests and calls are children of the span of the run.
        run.options.trace = span.as_ref().and_then(OpenSpan::place).or(run.options.trace);
        let (run_id, session_id) = (run.fence.run_id, run.session_id);
        if run.takeovers >= GIVEN_UP_AFTER {
            // Boxed, as above: each run would hold its memory.
            Box::pin(fail_unread(services, session_id, run.fence)).await;
            return Driven { others_wait: true, has_completed: false };
        }
        let active = OnceLock::new();
        let (signals, registration) = if accepted.is_some() {
            self.active.register_early(run_id, asked_at, &self.shutdown)
        } else {
            active.get_or_init(|| services.metrics.active_run());
            self.active.register(run_id, asked_at, &self.shutdown)
        };
        let acceptance = accepted.map(|accepted| {
            let (registration, active) = (&registration, &active);
            let acceptance = async move {
                let run = accepted.await.ok()?;
                registration.set_stored();
                services.metrics.runs_claimed(ClaimedFrom::HandOver, 1);
                active.get_or_init(|| services.metrics.active_run());
                Some(run)
            };
            acceptance.boxed()
        });
        if run.is_cancelled {
            signals.cancel.cancel();
        }
        // Boxed, because the future is large.
        let claim = DrivenClaim { claim: run, acceptance };
        let driven = Box::pin(drive(services, claim, signals, slot, span.as_mut())).await;
        // Previews of a run that was released are still open.
        services.bus.end_previews(session_id, run_id);
        driven
    }
}

/// The sweep interval with jitter: processes that started together do not sweep together for long.
fn sweep_interval() -> Duration {
    SWEEP_INTERVAL.mul_f64(0.9 + 0.1 * fastrand::f64())
}
