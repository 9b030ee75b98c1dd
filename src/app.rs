//! The composition root: builds the service of a configuration, runs it, and stops it.

mod check;
mod database;
mod execution;
mod first_key;
mod listening;
mod live_check;
mod model;
mod private_files;
mod registry;
mod reload;
mod request_body;
mod workspace_folder;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bus::{Bus, link};
use crate::config::{Collector, Config, Listen};
use crate::domain::api_key::ApiKey;
use crate::http::{DatabaseProbe, Health, MetricsAccess};
use crate::metrics::Metrics;
use crate::model::catalog::Catalog;
use crate::service::watch_queue;
use crate::spans::{self, Export};
use crate::telemetry::lost_lines;
use crate::tools::builtin::bash::Bash;
use crate::tools::mcp::ToolServers;
use crate::webhooks::Sender;
use crate::worker::Worker;
pub use check::check;
use database::{Pools, open_pools};
pub use database::{bring_up_to_date, bring_up_to_date_and_grant, connect, open_database};
use execution::{Execution, WorkerShared};
use first_key::generate_key;
use listening::{Listening, Shared};
pub use live_check::{LiveAnswer, check_live};
use private_postgres::PrivatePostgres;
use registry::open_registry;
pub use reload::Reloader;
use sandbox::{Level, SandboxError};
use simulator::Running;
use workspace_folder::{check_workspaces, workspaces_probe};

/// Time for runs to stop: less than container runtimes allow a process after SIGTERM.
const RUNS_TIMEOUT: Duration = Duration::from_secs(28);
/// Time to complete the webhook deliveries in flight and to record their outcomes.
const SENDER_TIMEOUT: Duration = Duration::from_secs(8);
/// Time to send the remaining spans to the trace collector.
const TRACES_TIMEOUT: Duration = Duration::from_secs(2);
/// Time to complete open requests. A client that does not read its response never completes one.
const REQUESTS_TIMEOUT: Duration = Duration::from_secs(5);

/// A process that is ready to run.
#[derive(Debug)]
pub struct Application {
    listening: Option<Listening>,
    /// The listener of `/metrics`, if it has an address of its own.
    metrics_listener: Option<Listening>,
    worker: Option<Arc<Worker>>,
    sender: Option<Sender>,
    bus: Arc<Bus>,
    metrics: Arc<Metrics>,
    pools: Pools,
    simulator: Option<Running>,
    /// The model servers whose lists of models are read, if they are.
    catalog: Option<Catalog>,
    private_postgres: Option<PrivatePostgres>,
    draining: CancellationToken,
    traces: Option<Export>,
    tool_servers: Arc<ToolServers>,
    reloader: Reloader,
    /// The first API key, if it was generated at this start.
    first_key: Option<ApiKey>,
}

impl Application {
    /// Starts the dependencies of the process, migrates the schema, and binds the addresses.
    pub async fn build(config: Config) -> anyhow::Result<Self> {
        // Boxed, because the future is large.
        Box::pin(Self::build_until(config, &CancellationToken::new())).await
    }

    /// As [`Application::build`], but fails when `shutdown` is cancelled during a migration, which may
    /// take long or wait for another process.
    pub async fn build_until(config: Config, shutdown: &CancellationToken) -> anyhow::Result<Self> {
        private_files::secure(&config).await;
        let workspaces =
            workspaces_probe(&config.workspaces, &config.listen, config.work.is_some());
        check_workspaces(workspaces.as_ref()).await?;
        let sandbox = open_tools(&config).await?;
        let (pools, private_postgres) = open_pools(&config, shutdown).await?;
        let (tools, tool_servers) = open_registry(config.tools, config.tool_servers).await?;
        let reloader = Reloader::new(config.reload, &config.permissions, &config.listen);
        let (permissions, bus) = (Arc::new(config.permissions), Arc::new(Bus::default()));
        let (metrics, traces) = open_traces(config.traces.as_ref(), &tool_servers)?;

        let shared = WorkerShared {
            listen: &config.listen,
            pools: &pools,
            bus: &bus,
            tools: &tools,
            permissions: &permissions,
            tool_servers: &tool_servers,
            metrics: &metrics,
            workspaces: &config.workspaces,
            state_dir: &config.state_dir,
        };
        let Execution { worker, simulator, catalog, sender } =
            Execution::open(config.work, &shared).await?;
        let health = Health {
            pool: pools.admission.clone(),
            draining: CancellationToken::new(),
            metrics: Arc::clone(&metrics),
            serves_metrics: config.metrics.is_none(),
            metrics_access: metrics_access(&config.listen),
            sandbox,
            worker: worker.as_ref().map(|worker| worker.lease()),
            workspaces,
            database: DatabaseProbe::new(pools.probed(&config.listen, worker.is_some())),
            tool_servers: Arc::clone(&tool_servers),
        };
        let draining = health.draining.clone();
        let metrics_listener = Listening::for_metrics(config.metrics, &health).await?;
        let shared = Shared::new(&pools, &bus, tools, permissions, &config.workspaces);
        let listening = Listening::open(config.listen.clone(), health, shared).await?;
        let first_key = generate_key(&config.listen, &pools.admission).await?;
        Ok(Self {
            first_key,
            reloader: reloader.with_service(listening.as_ref().and_then(Listening::service)),
            listening,
            metrics_listener,
            worker,
            sender,
            bus,
            metrics,
            pools,
            simulator,
            catalog,
            private_postgres,
            draining,
            traces,
            tool_servers,
        })
    }

    /// The bound address of the API or the health checks, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listening.as_ref().map(Listening::address)
    }

    /// The bound address of `/metrics`, if it has one of its own.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_listener.as_ref().map(Listening::address)
    }

    /// The first API key, if it was generated at this start. It must be printed now, because only its
    /// hash is stored.
    pub fn first_key(&self) -> Option<&ApiKey> {
        self.first_key.as_ref()
    }

    /// The settings that the process can read again.
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// The private database server, if the service runs one.
    pub fn private_postgres(&self) -> Option<&PrivatePostgres> {
        self.private_postgres.as_ref()
    }

    /// The simulator, if the service runs one.
    pub fn simulator(&self) -> Option<&Running> {
        self.simulator.as_ref()
    }

    /// Serves until `shutdown` is cancelled, then stops in this order: readiness fails, streams are
    /// aborted, runs are released, connections are closed, the private database stops.
    pub async fn run_until_stopped(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let tasks = TaskTracker::new();
        let unlink = CancellationToken::new();
        let database = self
            .private_postgres
            .map(|private_postgres| tasks.spawn(private_postgres.supervise(unlink.clone())));
        let linked =
            tasks.spawn(link(Arc::clone(&self.bus), self.pools.bus.clone(), unlink.clone()));
        let (pool, stop) = (self.pools.admission.clone(), self.draining.clone());
        tasks.spawn(watch_queue(pool, Arc::clone(&self.bus), self.metrics, stop));
        if let Some(catalog) = self.catalog {
            tasks.spawn(catalog.refresh_periodically(self.draining.clone()));
        }
        tasks.spawn(unlink.clone().run_until_cancelled_owned(self.pools.close_idle_periodically()));
        let flush = CancellationToken::new();
        let traces = self.traces.map(|export| tasks.spawn(export.run(flush.clone())));
        let worker = self.worker.map(|worker| tasks.spawn(worker.run(self.draining.clone())));
        let sender = self.sender.map(|sender| tasks.spawn(sender.run(self.draining.clone())));
        let start = |listening: Listening| listening.start(&tasks, &self.draining);
        let (server, posts) = self.listening.map(start).unzip();
        let posts = posts.unwrap_or_default();
        let metrics_listener = self.metrics_listener.map(|listener| start(listener).0);

        shutdown.cancelled().await;
        tracing::info!("stopping");
        self.draining.cancel();
        tokio::join!(
            wait_for_task(worker, RUNS_TIMEOUT, "runs not stopped in time"),
            wait_for_task(server, REQUESTS_TIMEOUT, "requests not completed in time"),
            wait_for_task(
                metrics_listener,
                REQUESTS_TIMEOUT,
                "requests for metrics not completed in time"
            ),
            wait_for_task(
                sender,
                SENDER_TIMEOUT,
                "outcomes of webhook deliveries not recorded in time"
            ),
        );
        self.tool_servers.stop().await;
        finish_posts(&posts).await;
        unlink.cancel();
        flush.cancel();
        wait_for_task(traces, TRACES_TIMEOUT, "spans not sent in time").await;
        wait_for_task(Some(linked), REQUESTS_TIMEOUT, "other processes not notified in time").await;
        if timeout(REQUESTS_TIMEOUT, self.pools.close()).await.is_err() {
            tracing::warn!("database connections not closed in time");
        }
        if let Some(simulator) = self.simulator {
            simulator.stop().await;
        }
        if let Some(database) = database {
            let stopped = async { database.await??.stop().await };
            stopped.await.context("the private database did not stop")?;
        }
        tracing::info!("stopped");
        Ok(())
    }
}

/// The callers that may read the metrics. The address of a worker is for operators alone.
fn metrics_access(listen: &Listen) -> MetricsAccess {
    match listen {
        Listen::Api(serve) => serve.http.metrics_access.clone(),
        Listen::Health(_) | Listen::Nowhere => MetricsAccess::Open,
    }
}

/// The metrics of the process, and the exporter of its spans if a collector is configured.
fn open_traces(
    collector: Option<&Collector>,
    tool_servers: &Arc<ToolServers>,
) -> anyhow::Result<(Arc<Metrics>, Option<Export>)> {
    let servers = Arc::clone(tool_servers);
    let metrics = Metrics::new()
        .with_tool_servers(Box::new(move || servers.reports()))
        .with_lost_log_lines(lost_lines());
    let Some(collector) = collector else { return Ok((Arc::new(metrics), None)) };
    let (spans, export) =
        spans::start(&collector.url, collector.headers.clone(), metrics.spans_dropped())?;
    Ok((Arc::new(metrics.with_spans(spans)), Some(export)))
}

/// Waits for the requests of disconnected clients, which continue to their end.
async fn finish_posts(posts: &TaskTracker) {
    posts.close();
    if timeout(REQUESTS_TIMEOUT, posts.wait()).await.is_err() {
        tracing::warn!("requests of disconnected clients not completed in time");
    }
}

/// Waits for a task, if there is one, and aborts it after the time limit.
async fn wait_for_task<T>(
    task: Option<JoinHandle<T>>,
    time_limit: Duration,
    otherwise: &'static str,
) {
    let Some(mut task) = task else { return };
    if timeout(time_limit, &mut task).await.is_err() {
        tracing::warn!("{otherwise}");
        task.abort();
    }
}

/// Checks the dependencies of the tools, and returns the level of the sandbox if Bash is enabled.
/// A service without the requested sandbox must not start.
async fn open_tools(config: &Config) -> anyhow::Result<Option<Level>> {
    if config.work.is_none() {
        return Ok(None);
    }
    if let Some(records) = &config.options.records {
        records.check().await.context("the table of records cannot be searched")?;
    }
    let Some(sandbox) = config.options.bash.as_ref().map(Bash::confinement) else {
        return Ok(None);
    };
    let level = sandbox.open(&config.workspaces).await?;
    let is_shared =
        matches!(&config.listen, Listen::Api(serve) if serve.service.defaults.workspace.is_some());
    if level == Level::Basic && is_shared {
        return Err(SandboxError::Shared).context(
            "Bash cannot be used with --shared-workspace on this machine: leave the option out, so \
                 that each session has a folder of its own, or make the full level possible \
                 (`twostep doctor sandbox` names what is missing)",
        );
    }
    tracing::info!(sandbox.level = %level, "Bash runs in a sandbox");
    Ok(Some(level))
}
