//! The composition root: from a configuration to a running service, and back.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, PgPool};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bus::Bus;
use crate::config::{Config, Database, ModelSource};
use crate::http::{Api, serve};
use crate::model::anthropic::{Client, ClientConfig};
use crate::simulator::{Options as SimulatorOptions, Running, Script, Simulator};
use crate::store::connections::Connections;
use crate::store::embedded::EmbeddedPostgres;
use crate::store::{self, PoolRole};
use crate::tools::Registry;
use crate::worker::{Parts, Worker};

/// Time for runs to end, short of what a container runtime grants.
const RUNS_TIMEOUT: Duration = Duration::from_secs(28);
/// Time for requests to end. A client that does not read what it is sent never ends its own.
const REQUESTS_TIMEOUT: Duration = Duration::from_secs(5);

/// A service that is about to listen.
#[derive(Debug)]
pub struct Application {
    listener: TcpListener,
    address: SocketAddr,
    api: Api,
    worker: Arc<Worker>,
    pools: [Connections; 2],
    heartbeat_pool: PgPool,
    simulator: Option<Running>,
    embedded: Option<EmbeddedPostgres>,
    draining: CancellationToken,
}

impl Application {
    /// Starts what the service stands on, brings the schema up to date, and binds the address.
    pub async fn build(config: Config) -> anyhow::Result<Self> {
        let (options, embedded) = open_database(config.database).await?;
        let [api_pool, worker_pool, heartbeat_pool] =
            [PoolRole::Api, PoolRole::Worker, PoolRole::Heartbeat]
                .map(|role| store::pool(&options, role));
        bring_up_to_date(&options, &api_pool).await?;

        let (client, simulator) = open_model(config.model, config.model_idle_timeout).await?;
        let tools = Arc::new(Registry::new(config.tools)?);
        let bus = Arc::new(Bus::default());
        let [api_pool, worker_pool] = [api_pool, worker_pool].map(Connections::from);
        let draining = CancellationToken::new();
        let worker = Worker::new(Parts {
            pool: worker_pool.clone(),
            heartbeat_pool: heartbeat_pool.clone(),
            bus: Arc::clone(&bus),
            model: client,
            tools: Arc::clone(&tools),
            workspaces: config.workspaces,
            use_prompt_cache: config.use_prompt_cache,
            slots: config.slots,
        });
        let api = Api::new(
            api_pool.clone(),
            bus,
            tools,
            config.defaults,
            config.keep_alive_every,
            draining.clone(),
        )
        .with_timeouts(config.timeouts);
        let listener = TcpListener::bind(config.bind)
            .await
            .with_context(|| format!("the address {} cannot be bound", config.bind))?;
        Ok(Self {
            address: listener.local_addr()?,
            listener,
            api,
            worker,
            pools: [api_pool, worker_pool],
            heartbeat_pool,
            simulator,
            embedded,
            draining,
        })
    }

    /// The address that was bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The private database server, if the service runs one.
    pub fn embedded(&self) -> Option<&EmbeddedPostgres> {
        self.embedded.as_ref()
    }

    /// The simulator, if the service runs one.
    pub fn simulator(&self) -> Option<&Running> {
        self.simulator.as_ref()
    }

    /// Serves until it is told to stop; then stops in order: no longer ready, streams torn, runs
    /// let go, connections closed, the database last.
    pub async fn run_until_stopped(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let tasks = TaskTracker::new();
        let mut worker = tasks.spawn(self.worker.run(self.draining.clone()));
        let posts = self.api.posts.clone();
        let mut server = tasks.spawn(serve(self.listener, self.api));

        shutdown.cancelled().await;
        tracing::info!("stopping");
        self.draining.cancel();
        let (runs, requests) = tokio::join!(
            timeout(RUNS_TIMEOUT, &mut worker),
            timeout(REQUESTS_TIMEOUT, &mut server),
        );
        if runs.is_err() {
            tracing::warn!("not all runs ended in time");
            worker.abort();
        }
        if requests.is_err() {
            tracing::warn!("not all requests ended in time");
            server.abort();
        }
        // Of clients that have left: what they began is carried to its end.
        posts.close();
        if timeout(REQUESTS_TIMEOUT, posts.wait()).await.is_err() {
            tracing::warn!("not all posts ended in time");
        }
        for pool in self.pools {
            pool.close().await;
        }
        self.heartbeat_pool.close().await;
        if let Some(simulator) = self.simulator {
            simulator.stop().await;
        }
        if let Some(embedded) = self.embedded {
            embedded.stop().await.context("the private database did not stop")?;
        }
        Ok(())
    }
}

/// The way to the database, and the private server if there is to be one.
pub async fn open_database(
    database: Database,
) -> anyhow::Result<(PgConnectOptions, Option<EmbeddedPostgres>)> {
    Ok(match database {
        Database::Server(options) => (*options, None),
        Database::Embedded(options) => {
            let embedded = EmbeddedPostgres::start(&options).await?;
            (embedded.connect_options(), Some(embedded))
        }
    })
}

/// Brings the schema up to this version.
pub async fn bring_up_to_date(options: &PgConnectOptions, pool: &PgPool) -> anyhow::Result<()> {
    let Err(error) = store::migrate(pool).await else {
        return Ok(());
    };
    // A pool that waited in vain does not say what for; a single connection does.
    options.connect().await.context("the database cannot be reached")?;
    Err(error).context("the database schema cannot be brought up to date")
}

async fn open_model(
    source: ModelSource,
    idle_timeout: Duration,
) -> anyhow::Result<(Client, Option<Running>)> {
    match source {
        ModelSource::Server(config) => Ok((Client::new(&config)?, None)),
        ModelSource::Simulator { script } => {
            let script = match script {
                Some(path) => Script::from_file(&path)
                    .with_context(|| format!("the script {} cannot be used", path.display()))?,
                None => Script::demo(),
            };
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let simulator = Simulator::start(listener, script, SimulatorOptions::default());
            let config = ClientConfig {
                base_url: simulator.base_url().parse()?,
                api_key: Some("simulator".to_owned().into()),
                version: "2023-06-01".to_owned(),
                idle_timeout,
            };
            Ok((Client::new(&config)?, Some(simulator)))
        }
    }
}
