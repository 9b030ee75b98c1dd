//! The parts of a process that execute runs: the worker, its model and the sender of webhooks.

use std::path::Path;
use std::sync::Arc;

use simulator::Running;

use super::database::Pools;
use super::model::{models_to_refresh, open_models};
use crate::bus::Bus;
use crate::config::{Listen, Work};
use crate::metrics::Metrics;
use crate::model::catalog::Catalog;
use crate::outbound::{AllowedHosts, Outbound};
use crate::tools::Registry;
use crate::tools::mcp::ToolServers;
use crate::tools::policy::{Evaluator, OperatorPolicy};
use crate::webhooks::{self, Sender};
use crate::worker::{Node, Worker, WorkerParts};

/// The parts of a process that execute runs; all absent in a process that executes none.
#[derive(Default)]
pub(super) struct Execution {
    pub(super) worker: Option<Arc<Worker>>,
    /// The simulator, if the service runs one.
    pub(super) simulator: Option<Running>,
    /// The model servers whose lists of models are read, if they are.
    pub(super) catalog: Option<Catalog>,
    pub(super) sender: Option<Sender>,
}

/// The parts of the process that the worker shares with others.
pub(super) struct WorkerShared<'a> {
    pub(super) listen: &'a Listen,
    pub(super) pools: &'a Pools,
    pub(super) bus: &'a Arc<Bus>,
    pub(super) tools: &'a Arc<Registry>,
    pub(super) permissions: &'a Arc<OperatorPolicy>,
    pub(super) tool_servers: &'a Arc<ToolServers>,
    pub(super) metrics: &'a Arc<Metrics>,
    pub(super) workspaces: &'a Path,
    pub(super) state_dir: &'a Path,
}

impl Execution {
    /// Opens the model and creates the worker, if the process executes runs.
    pub(super) async fn open(
        work: Option<Work>,
        shared: &WorkerShared<'_>,
    ) -> anyhow::Result<Self> {
        let Some(work) = work else { return Ok(Self::default()) };
        let idle = work.model_idle_timeout;
        let (models, simulator) = open_models(work.model, &work.providers, idle).await?;
        let catalog = models_to_refresh(shared.listen).map(|known| Catalog::of(&models, known));
        let worker = Worker::new(WorkerParts {
            pool: shared.pools.worker.clone(),
            heartbeat_pool: shared.pools.heartbeat.clone(),
            bus: Arc::clone(shared.bus),
            models,
            tools: Arc::clone(shared.tools),
            policy: Arc::clone(shared.permissions),
            evaluator: Evaluator::of(shared.permissions, shared.tool_servers)?,
            workspaces: shared.workspaces.to_owned(),
            prompt_cache: work.prompt_cache,
            slots: work.slots,
            history_memory: work.history_memory,
            drain_for: work.drain_for,
            metrics: Arc::clone(shared.metrics),
            quotas: work.quotas,
            node: Node::open(shared.state_dir),
        });
        worker.reclaim_predecessor_leases().await;
        let sender = webhook_sender(work.webhook_hosts, shared)?;
        Ok(Self { worker: Some(worker), simulator, catalog, sender: Some(sender) })
    }
}

fn webhook_sender(hosts: AllowedHosts, shared: &WorkerShared<'_>) -> anyhow::Result<Sender> {
    let outbound = Outbound::new(hosts, webhooks::TIMEOUT)?;
    let (pool, metrics) = (shared.pools.worker.clone(), Arc::clone(shared.metrics));
    Ok(Sender { pool, outbound, metrics })
}
