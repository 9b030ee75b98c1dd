//! The worker of a process, from its start to its shutdown.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::active_runs::{ActiveRuns, forward_cancels};
use super::isolation::Isolation;
use super::leases::Heartbeat;
use super::lost_leases::LostLeases;
use super::node::Node;
use super::slots::Slots;
use crate::bus::{Bus, HandOver};
use crate::domain::circuit::Circuit;
use crate::domain::ids::WorkerId;
use crate::domain::prompt_cache::CacheTtl;
use crate::domain::quota::QuotaLimits;
use crate::faults::{self, Point};
use crate::metrics::Metrics;
use crate::model::ModelServers;
use crate::store::connections::Connections;
use crate::store::group_commit::GroupCommit;
use crate::store::leases::expire;
use crate::store::quotas::Quotas;
use crate::store::retry::in_time;
use crate::tools::Registry;
use crate::tools::lease::LeaseClock;
use crate::tools::policy::{Evaluator, OperatorPolicy};
use crate::worker::run::signals::ShutdownSignals;
use crate::worker::services::Services;
use crate::worker::titles::Titles;
use crate::worker::transcript::TranscriptCache;
use crate::worker::{workspace_gc, workspace_sizes};

/// Commands that are executed at once: at least so many, or so many for each processor.
const MIN_COMMANDS: usize = 64;
const COMMANDS_PER_PROCESSOR: usize = 16;

/// The permits of commands.
fn commands() -> Semaphore {
    let processors = available_parallelism().map_or(1, NonZero::get);
    Semaphore::new((processors * COMMANDS_PER_PROCESSOR).max(MIN_COMMANDS))
}

/// The parts that a worker is built from.
#[derive(Debug)]
pub struct WorkerParts {
    /// The connections of runs.
    pub pool: Connections,
    /// The connections of the heartbeat: a busy pool must not delay the renewal of leases.
    pub heartbeat_pool: Connections,
    /// The bus that announces work and carries events and previews to readers.
    pub bus: Arc<Bus>,
    /// The model servers.
    pub models: ModelServers,
    /// The tools.
    pub tools: Arc<Registry>,
    /// The operator's permission policy.
    pub policy: Arc<OperatorPolicy>,
    /// The evaluator that decides on calls before a person is asked.
    pub evaluator: Option<Evaluator>,
    /// The parent folder of the session workspaces, unless the operator set one for all sessions.
    pub workspaces: PathBuf,
    /// The lifetime of the cached prefix that requests ask for, if any.
    pub prompt_cache: Option<CacheTtl>,
    /// Maximum number of runs that are executed at once.
    pub slots: usize,
    /// Maximum number of bytes of the histories of these runs in memory.
    pub history_memory: usize,
    /// The time that requests and calls in flight have when the worker shuts down.
    pub drain_for: Duration,
    /// The worker's identity on its machine.
    pub node: Node,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The quotas of tenants that have none of their own.
    pub quotas: QuotaLimits,
}

/// The worker of a process.
#[derive(Debug)]
pub struct Worker {
    pub(super) id: WorkerId,
    pub(super) services: Services,
    pub(super) slots: Slots,
    pub(super) isolation: Isolation,
    pub(super) active: Arc<ActiveRuns>,
    pub(super) runs: TaskTracker,
    pub(super) shutdown: ShutdownSignals,
    pub(super) titles: Titles,
    heartbeat_pool: Connections,
    drain_for: Duration,
    node: Node,
}

impl Worker {
    /// Builds a worker that has not started.
    pub fn new(parts: WorkerParts) -> Arc<Self> {
        parts.metrics.model_circuit(Circuit::Closed);
        Arc::new(Self {
            id: parts.node.id(),
            slots: Slots::new(parts.slots, parts.history_memory),
            isolation: Isolation::default(),
            active: Arc::default(),
            runs: TaskTracker::new(),
            shutdown: ShutdownSignals::default(),
            titles: Titles::default(),
            heartbeat_pool: parts.heartbeat_pool,
            drain_for: parts.drain_for,
            node: parts.node,
            services: Services {
                quotas: Quotas::new(parts.pool.clone(), parts.quotas),
                group_commit: GroupCommit::new(parts.pool.clone()),
                pool: parts.pool,
                bus: parts.bus,
                models: parts.models,
                tools: parts.tools,
                policy: parts.policy,
                evaluator: parts.evaluator,
                workspaces: parts.workspaces,
                prompt_cache: parts.prompt_cache,
                metrics: parts.metrics,
                lost_leases: LostLeases::default(),
                lease: LeaseClock::default(),
                transcripts: TranscriptCache::default(),
                commands: commands(),
            },
        })
    }

    /// The clock of the last lease renewal.
    pub fn lease(&self) -> LeaseClock {
        self.services.lease.clone()
    }

    /// Claims and drives runs until `shutdown` is cancelled; then releases the runs and returns when
    /// the last one has ended.
    pub async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let helpers = TaskTracker::new();
        let stop_helpers = CancellationToken::new();
        helpers.spawn(self.heartbeat().run(stop_helpers.clone()));
        let (bus, active) = (Arc::clone(&self.services.bus), Arc::clone(&self.active));
        helpers.spawn(forward_cancels(bus, active, stop_helpers.clone()));
        let (pool, folder) = (self.services.pool.clone(), self.services.workspaces.clone());
        let quotas = self.services.quotas.defaults();
        let measure = workspace_sizes::measure_periodically(pool.clone(), folder.clone(), quotas);
        helpers.spawn(shutdown.clone().run_until_cancelled_owned(measure));
        let collect = workspace_gc::collect_periodically(pool, folder);
        helpers.spawn(shutdown.clone().run_until_cancelled_owned(collect));

        let mut handed = self.services.bus.open_hand_over(self.id, self.slots.for_requests());
        tokio::join!(
            self.claim_loop(&shutdown),
            self.sweep_loop(&shutdown),
            shutdown.run_until_cancelled(self.take_handed_over(&mut handed)),
        );
        self.services.bus.close_hand_over();
        handed.close();
        faults::point(Point::Draining).await;
        self.drain(&mut handed).await;
        stop_helpers.cancel();
        helpers.close();
        helpers.wait().await;
    }

    /// Ends the leases of the workers that stopped on this machine, so that their runs continue at
    /// once. Must be called before the first claim.
    pub async fn reclaim_predecessor_leases(&self) {
        let predecessors = self.node.predecessors();
        let expired = self.services.pool.with(async |conn| expire(conn, predecessors).await);
        match in_time(expired).await {
            Ok(0) => {}
            Ok(runs) => tracing::info!(runs, "leases of a stopped worker on this machine ended"),
            Err(error) => {
                tracing::warn!(%error, "leases of a stopped worker could not be ended, they expire");
            }
        }
        if let Err(error) = self.node.write_id() {
            tracing::warn!(%error, "id of the worker could not be written");
        }
    }

    fn heartbeat(&self) -> Heartbeat {
        Heartbeat {
            worker: self.id,
            pool: self.heartbeat_pool.clone(),
            active: Arc::clone(&self.active),
            lost: self.services.lost_leases.clone(),
            lease: self.lease(),
        }
    }

    /// Releases runs at their next safe point, and after the drain period at any point.
    async fn drain(self: &Arc<Self>, handed: &mut UnboundedReceiver<HandOver>) {
        self.shutdown.drain.cancel();
        // Runs that were handed over in the last moment are released like all others.
        self.take_handed_over(handed).await;
        self.runs.close();
        let runs = self.runs.len();
        if runs > 0 {
            tracing::info!(runs, seconds = self.drain_for.as_secs(), "draining runs");
        }
        if timeout(self.drain_for, self.all_ended()).await.is_err() {
            tracing::info!(runs = self.runs.len(), "drain period over, runs released");
            self.shutdown.release_now.cancel();
            self.all_ended().await;
        }
    }

    /// Waits for the last run, and for the requests for titles.
    async fn all_ended(&self) {
        self.runs.wait().await;
        self.titles.finish().await;
    }
}
