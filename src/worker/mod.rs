//! Workers: take runs up, drive them, keep their leases.

mod claim;
mod compaction;
mod model_call;
#[cfg(test)]
mod model_check;
mod run;
mod sub_agents;
mod tool_round;
mod transcript;
mod workspace_gc;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::PgConnection;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::bus::{Bus, HandOver};
use crate::domain::circuit::Circuit;
use crate::domain::claim::Claimed;
use crate::domain::ids::WorkerId;
use crate::domain::prompt_cache::CacheTtl;
use crate::faults::{self, Bug, Point};
use crate::metrics::{ClaimedFrom, Metrics};
use crate::model::Model;
use crate::model::upstream::Upstream;
use crate::spans::Open;
use crate::store::StoreError;
use crate::store::claim::{
    Claims, MAX_TAKEOVERS, claim_expired, claim_queued, claim_woken, expire,
};
use crate::store::connections::Connections;
use crate::tools::Registry;
use crate::tools::lease::LeaseClock;
use crate::tools::policy::{Evaluator, OperatorPolicy};
use claim::active_runs::{self, Active, Stopping};
use claim::give_up::HOPELESS_AFTER;
use claim::leases;
pub use claim::node::Node;
use claim::slots::{Slot, Slots};
use run::database_retry::in_time;
use run::driver;
use run::spans::{begin_run, span_of};
use sub_agents::priority::Awaited;
use transcript::TranscriptCache;
pub use transcript::{sent_before, sent_messages};

/// How often every process looks for work that nobody announced, and for leases that ran out.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Runs taken up in one statement.
const CLAIM_BATCH: usize = 16;

/// What a worker works with.
#[derive(Debug)]
pub struct Parts {
    /// For runs.
    pub pool: Connections,
    /// For renewing leases, so that a busy pool never costs one.
    pub heartbeat_pool: Connections,
    /// Where work is announced and progress is told.
    pub bus: Arc<Bus>,
    /// The model.
    pub model: Model,
    /// The tools.
    pub tools: Arc<Registry>,
    /// What the operator lets them do.
    pub policy: Arc<OperatorPolicy>,
    /// Who is asked before a person is.
    pub evaluator: Option<Evaluator>,
    /// Where sessions have their folders, unless the operator chose one for all.
    pub workspaces: PathBuf,
    /// For how long requests ask the model's side to cache their prefix, if they do.
    pub prompt_cache: Option<CacheTtl>,
    /// Runs at a time.
    pub slots: usize,
    /// How long requests and calls in flight may go on when the worker stops.
    pub drain_for: Duration,
    /// The worker's place on its machine.
    pub node: Node,
    /// Where it is counted what happens.
    pub metrics: Arc<Metrics>,
}

/// The worker of a process.
#[derive(Debug)]
pub struct Worker {
    id: WorkerId,
    parts: Parts,
    slots: Slots,
    upstream: Upstream,
    active: Active,
    awaited: Awaited,
    lease: LeaseClock,
    transcripts: TranscriptCache,
    runs: TaskTracker,
    stopping: Stopping,
    /// The leases are to be renewed now, because a run is said to have been cancelled.
    beat_now: Notify,
}

impl Worker {
    /// A worker that has not begun.
    pub fn new(parts: Parts) -> Arc<Self> {
        parts.metrics.model_circuit(Circuit::Closed);
        Arc::new(Self {
            id: parts.node.id(),
            slots: Slots::new(parts.slots),
            upstream: Upstream::default(),
            active: Active::default(),
            awaited: Awaited::default(),
            lease: LeaseClock::default(),
            transcripts: TranscriptCache::default(),
            runs: TaskTracker::new(),
            stopping: Stopping::default(),
            beat_now: Notify::new(),
            parts,
        })
    }

    /// When its leases were last renewed.
    pub fn lease(&self) -> LeaseClock {
        self.lease.clone()
    }

    /// Works until it is told to stop; then lets its runs go and returns when they are gone.
    pub async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let helpers = TaskTracker::new();
        let heartbeat_stop = CancellationToken::new();
        helpers.spawn(leases::heartbeat(Arc::clone(&self), heartbeat_stop.clone()));
        helpers.spawn(active_runs::cancel_announced(Arc::clone(&self), heartbeat_stop.clone()));
        let (pool, folder) = (self.parts.pool.clone(), self.parts.workspaces.clone());
        let clear_away = workspace_gc::clear_away(pool, folder);
        helpers.spawn(shutdown.clone().run_until_cancelled_owned(clear_away));

        let mut handed = self.parts.bus.open_desk(self.id, Arc::clone(self.slots.free()));
        tokio::join!(
            self.claim_loop(&shutdown),
            self.sweep_loop(&shutdown),
            shutdown.run_until_cancelled(self.take_handed(&mut handed)),
        );
        self.parts.bus.close_desk();
        handed.close();
        faults::point(Point::Draining).await;
        self.drain(&mut handed).await;
        heartbeat_stop.cancel();
        helpers.close();
        helpers.wait().await;
    }

    /// Ends the leases of workers that died on this machine, so that their runs need not wait. To
    /// be called before anything is claimed.
    pub async fn succeed(&self) {
        let node = &self.parts.node;
        let expired = async {
            let mut conn = self.parts.pool.acquire().await?;
            let runs = expire(&mut conn, node.former()).await?;
            conn.give_back();
            Ok::<_, StoreError>(runs)
        };
        match in_time(expired).await {
            Ok(0) => {}
            Ok(runs) => tracing::info!(runs, "runs of a worker that died here are taken over"),
            Err(error) => tracing::warn!(%error, "the leases of a former worker run out by time"),
        }
        if let Err(error) = node.settle() {
            tracing::warn!(%error, "the worker's id cannot be noted");
        }
    }

    /// Lets runs go at their next safe point, and after a while wherever they are.
    async fn drain(self: &Arc<Self>, handed: &mut UnboundedReceiver<HandOver>) {
        self.stopping.drain.cancel();
        // What was handed over in the last moment is let go like the rest.
        self.take_handed(handed).await;
        self.runs.close();
        let runs = self.runs.len();
        if runs > 0 {
            tracing::info!(runs, seconds = self.parts.drain_for.as_secs(), "runs may still end");
        }
        if timeout(self.parts.drain_for, self.runs.wait()).await.is_err() {
            tracing::info!(runs = self.runs.len(), "runs are let go where they are");
            self.stopping.halt.cancel();
            self.runs.wait().await;
        }
    }

    /// Drives runs that requests of this process hand over.
    async fn take_handed(self: &Arc<Self>, handed: &mut UnboundedReceiver<HandOver>) {
        while let Some(HandOver { run, slot }) = handed.recv().await {
            self.parts.metrics.runs_claimed(ClaimedFrom::HandOver, 1);
            self.spawn(run, Some(slot));
        }
    }

    /// Looks for runs that wait until it is told to stop, which is heeded only between two looks:
    /// a run that was claimed and then forgotten would lie until its lease runs out.
    async fn claim_loop(self: &Arc<Self>, shutdown: &CancellationToken) {
        while let Some(Ok(slot)) =
            shutdown.run_until_cancelled(Arc::clone(self.slots.free()).acquire_owned()).await
        {
            // Registered before looking: work that is announced in between is not missed.
            let announced = self.parts.bus.work();
            if self.take_up(TakeUp::Queued, slot).await > 0 {
                continue;
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                // A run that was let go, perhaps.
                () = announced => self.take_over().await,
                () = sleep(sweep_period()), if !faults::has(Bug::NoPoll) => {}
            }
        }
    }

    /// Takes up runs that nobody holds, if there is a free slot.
    async fn take_over(self: &Arc<Self>) {
        for what in TakeUp::LEFT {
            if let Ok(slot) = Arc::clone(self.slots.free()).try_acquire_owned() {
                self.take_up(what, slot).await;
            }
        }
    }

    /// Looks for leases that ran out and for runs that were answered, however busy the queue is:
    /// it stands in line for a slot, as who looks for runs that wait does.
    async fn sweep_loop(self: &Arc<Self>, shutdown: &CancellationToken) {
        if faults::has(Bug::NoPoll) {
            return;
        }
        let mut sweep = interval(sweep_period());
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while shutdown.run_until_cancelled(sweep.tick()).await.is_some() {
            for what in TakeUp::LEFT {
                // One for each look: a look that finds nothing gives it back at once.
                let slot = Arc::clone(self.slots.free()).acquire_owned();
                let Some(Ok(slot)) = shutdown.run_until_cancelled(slot).await else { return };
                self.take_up(what, slot).await;
            }
        }
    }

    /// Takes up as many runs as there are free slots, and says how many.
    async fn take_up(self: &Arc<Self>, what: TakeUp, slot: OwnedSemaphorePermit) -> usize {
        let claims = in_time(self.claim(what)).await.unwrap_or_else(|error| {
            tracing::warn!(%error, ?what, "no run can be taken up");
            Claims::default()
        });
        let taken = claims.runs.len();
        self.parts.metrics.runs_claimed(what.into(), taken);
        let mut first = Some(slot);
        for run in claims.runs {
            // Requests may have taken slots in between. A run too many is better than one that
            // is claimed and lies, with nobody who keeps its lease.
            let slot =
                first.take().or_else(|| Arc::clone(self.slots.free()).try_acquire_owned().ok());
            self.spawn(run, slot);
        }
        for run in claims.unreadable.iter().filter(|run| run.takeovers > MAX_TAKEOVERS) {
            // Boxed, because it is rare and large.
            Box::pin(self.give_up(run.session_id, run.fence)).await;
        }
        taken
    }

    async fn claim(&self, what: TakeUp) -> Result<Claims, StoreError> {
        let limit = self.slots.free().available_permits().min(CLAIM_BATCH - 1) + 1;
        let limit = i64::try_from(limit).unwrap_or(1);
        let mut conn = self.parts.pool.acquire().await?;
        let claims = match what {
            TakeUp::Queued => self.claim_queued(&mut conn, limit).await?,
            TakeUp::Expired => {
                #[cfg(feature = "faults")]
                crate::store::bugs::expire_by_process_clock(&mut conn).await?;
                claim_expired(&mut conn, self.id, limit).await?
            }
            TakeUp::Woken => claim_woken(&mut conn, self.id, limit).await?,
        };
        conn.give_back();
        Ok(claims)
    }

    /// Those come first that runs of this process wait for.
    async fn claim_queued(
        &self,
        conn: &mut PgConnection,
        limit: i64,
    ) -> Result<Claims, StoreError> {
        if let Some(awaited) = self.awaited.list() {
            let claims = claim_queued(conn, self.id, Some(&awaited), limit).await?;
            if !claims.runs.is_empty() {
                return Ok(claims);
            }
        }
        claim_queued(conn, self.id, None, limit).await
    }

    fn spawn(self: &Arc<Self>, run: Claimed, slot: Option<OwnedSemaphorePermit>) {
        let worker = Arc::clone(self);
        self.runs.spawn(async move {
            let mut slot = worker.slots.of_run(slot);
            let span = span_of(&run);
            let others_wait = worker.drive(run, &mut slot).instrument(span).await;
            drop(slot);
            if others_wait {
                worker.parts.bus.wake_worker();
            }
        });
    }

    /// Drives a run, and says whether another run may have waited for it.
    async fn drive(&self, mut run: Claimed, slot: &mut Slot) -> bool {
        let mut span = begin_run(self.parts.metrics.spans(), &run);
        // What the run causes belongs beneath its own span.
        run.options.trace = span.as_ref().and_then(Open::place).or(run.options.trace);
        let (run_id, session_id) = (run.fence.run_id, run.session_id);
        if run.takeovers > HOPELESS_AFTER {
            self.give_up(session_id, run.fence).await;
            return true;
        }
        let (signals, _entered) = self.active.enter(run_id, &self.stopping);
        let _active = self.parts.metrics.active_run();
        if run.is_cancelled {
            signals.cancel.cancel();
        }
        // Boxed, because it is large.
        let others_wait = Box::pin(driver::drive(self, run, signals, slot, span.as_mut())).await;
        // A run that was let go leaves its previews open here.
        self.parts.bus.end_previews(session_id, run_id);
        others_wait
    }
}

/// Processes that were started together do not sweep together for long.
fn sweep_period() -> Duration {
    SWEEP_EVERY.mul_f64(0.9 + 0.1 * fastrand::f64())
}

#[derive(Debug, Clone, Copy)]
enum TakeUp {
    Queued,
    Expired,
    Woken,
}

impl TakeUp {
    /// What nobody may have announced.
    const LEFT: [Self; 2] = [Self::Expired, Self::Woken];
}

impl From<TakeUp> for ClaimedFrom {
    fn from(what: TakeUp) -> Self {
        match what {
            TakeUp::Queued => Self::Queue,
            TakeUp::Expired => Self::ExpiredLease,
            TakeUp::Woken => Self::Wait,
        }
    }
}
