//! Workers: take runs up, drive them, keep their leases.

mod active;
mod ask;
mod drive;
mod halt;
mod lease;
mod ledger;
mod previews;
mod transcript;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bus::Bus;
use crate::domain::ids::WorkerId;
use crate::model::anthropic::Client;
use crate::store::StoreError;
use crate::store::claim::{Claimed, claim_expired, claim_queued};
use crate::store::connections::Connections;
use crate::tools::Registry;
use active::Active;
use transcript::TranscriptCache;

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
    pub heartbeat_pool: PgPool,
    /// Where work is announced and progress is told.
    pub bus: Arc<Bus>,
    /// The model.
    pub model: Client,
    /// The tools.
    pub tools: Arc<Registry>,
    /// Where sessions have their folders, unless the operator chose one for all.
    pub workspaces: PathBuf,
    /// Whether requests ask the model's side to cache their prefix.
    pub use_prompt_cache: bool,
    /// Runs at a time.
    pub slots: usize,
}

/// The worker of a process.
#[derive(Debug)]
pub struct Worker {
    id: WorkerId,
    parts: Parts,
    slots: Arc<Semaphore>,
    active: Active,
    transcripts: TranscriptCache,
    runs: TaskTracker,
    /// Fires when runs must stop and be let go.
    halt: CancellationToken,
}

impl Worker {
    /// A worker that has not begun.
    pub fn new(parts: Parts) -> Arc<Self> {
        Arc::new(Self {
            id: WorkerId::new(),
            slots: Arc::new(Semaphore::new(parts.slots)),
            active: Active::default(),
            transcripts: TranscriptCache::default(),
            runs: TaskTracker::new(),
            halt: CancellationToken::new(),
            parts,
        })
    }

    /// Works until it is told to stop; then lets its runs go and returns when they are gone.
    pub async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let helpers = TaskTracker::new();
        let heartbeat_stop = CancellationToken::new();
        helpers.spawn(lease::heartbeat(Arc::clone(&self), heartbeat_stop.clone()));
        helpers.spawn(active::cancel_announced(
            Arc::clone(&self),
            heartbeat_stop.clone(),
        ));

        shutdown.run_until_cancelled(self.claim_loop()).await;
        self.halt.cancel();
        self.runs.close();
        self.runs.wait().await;
        heartbeat_stop.cancel();
        helpers.close();
        helpers.wait().await;
    }

    async fn claim_loop(self: &Arc<Self>) {
        let mut sweep = interval(SWEEP_EVERY);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Registered before looking: work that is announced in between is not missed.
            let announced = self.parts.bus.work();
            let taken = match self.take_up(TakeUp::Queued).await {
                Ok(taken) => taken,
                Err(error) => {
                    tracing::warn!(%error, "no work can be taken up");
                    sleep(SWEEP_EVERY).await;
                    0
                }
            };
            if taken > 0 {
                continue;
            }
            tokio::select! {
                () = announced => {}
                _ = sweep.tick() => {
                    sleep(SWEEP_EVERY.mul_f64(fastrand::f64() * 0.1)).await;
                    if let Err(error) = self.take_up(TakeUp::Expired).await {
                        tracing::warn!(%error, "no run can be taken over");
                    }
                }
            }
        }
    }

    /// Takes up as many runs as there are free slots, and waits for one if there is none.
    async fn take_up(self: &Arc<Self>, what: TakeUp) -> Result<usize, StoreError> {
        let Ok(first) = Arc::clone(&self.slots).acquire_owned().await else {
            return Ok(0);
        };
        let limit = self.slots.available_permits().min(CLAIM_BATCH - 1) + 1;
        let limit = i64::try_from(limit).unwrap_or(1);
        let mut conn = self.parts.pool.acquire().await?;
        let claimed = match what {
            TakeUp::Queued => claim_queued(&mut conn, self.id, limit).await?,
            TakeUp::Expired => claim_expired(&mut conn, self.id, limit).await?,
        };
        conn.give_back();
        let taken = claimed.len();
        let mut free = Some(first);
        for run in claimed {
            // The first slot is in hand; nobody else takes from the semaphore.
            let slot = match free.take() {
                Some(slot) => Ok(slot),
                None => Arc::clone(&self.slots).acquire_owned().await,
            };
            let Ok(slot) = slot else { break };
            let worker = Arc::clone(self);
            self.runs.spawn(async move {
                worker.drive(run).await;
                drop(slot);
                // The session's next run may have waited for this one.
                worker.parts.bus.announce_work();
            });
        }
        Ok(taken)
    }

    async fn drive(&self, run: Claimed) {
        let signals = self.active.enter(run.fence.run_id, &self.halt);
        if run.is_cancelled {
            signals.cancel.cancel();
        }
        let run_id = run.fence.run_id;
        drive::drive(self, run, signals).await;
        self.active.leave(run_id);
    }
}

#[derive(Debug, Clone, Copy)]
enum TakeUp {
    Queued,
    Expired,
}
