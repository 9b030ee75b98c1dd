//! A Postgres server for the test, and its databases.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use private_postgres::{Durability, Options, PrivatePostgres};
use rustix::process::{Pid, Signal, kill_process};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, PgPool};
use tokio::sync::Mutex;
use twostep::domain::api_key::{ApiKey, Scope};
use twostep::domain::ids::TenantId;
use twostep::store::MIGRATIONS;
use twostep::store::api_keys::{NewKey, insert};

use crate::args::Args;
use crate::planted::DATABASE_PASSWORD;

/// The roles with which the nodes connect.
pub(crate) const NODES: [&str; 2] = ["node_a", "node_b"];

/// The database from which the others are copied.
const TEMPLATE: &str = "template_crash";

/// A Postgres server.
#[derive(Debug)]
pub(crate) struct Cluster {
    options: Options,
    admin: PgConnectOptions,
    socket: PathBuf,
    server: Mutex<Option<PrivatePostgres>>,
    databases: AtomicU32,
    key: Arc<ApiKey>,
}

impl Cluster {
    /// Starts a server in a new folder. `durability` must be `Durable` if the server will crash.
    pub(crate) async fn start(
        args: &Args,
        folder: &Path,
        durability: Durability,
    ) -> anyhow::Result<Self> {
        let options = Options {
            data_dir: folder.to_owned(),
            bin_dir: args.pg_bin_dir.clone(),
            search_path: std::env::var_os("PATH"),
            durability,
        };
        let server = PrivatePostgres::start(&options).await?;
        let this = Self {
            // The server ignores the password; the output is searched for it.
            admin: server.connect_options().password(DATABASE_PASSWORD).disable_statement_logging(),
            socket: server.data_dir().join("run/.s.PGSQL.5432"),
            options,
            server: Mutex::new(Some(server)),
            databases: AtomicU32::new(0),
            key: Arc::new(ApiKey::generate()?),
        };
        this.make_template().await?;
        Ok(this)
    }

    async fn make_template(&self) -> anyhow::Result<()> {
        // With many databases, syncing file by file takes most of the time of a recovery.
        self.execute("ALTER SYSTEM SET recovery_init_sync_method = syncfs".to_owned()).await?;
        for node in NODES {
            self.execute(format!("CREATE ROLE {node} SUPERUSER LOGIN")).await?;
        }
        self.execute(format!("CREATE DATABASE {TEMPLATE}")).await?;
        let pool = PgPoolOptions::new().connect_lazy_with(self.admin.clone().database(TEMPLATE));
        MIGRATIONS.run(&pool).await?;
        pool.execute(include_str!("audit.sql")).await?;
        register_key(&self.key, &pool).await?;
        pool.close().await;
        Ok(())
    }

    /// Creates a database: with the schema and the audit tables of the test, or empty.
    pub(crate) async fn database(&self, is_empty: bool) -> anyhow::Result<Database> {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("crash_{number}");
        let template = if is_empty { "template0" } else { TEMPLATE };
        self.execute(format!("CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy"))
            .await?;
        let options = self.admin.clone().database(&name);
        Ok(Database { options, socket: self.socket.clone(), key: Arc::clone(&self.key) })
    }

    /// Crashes the server and starts it again.
    pub(crate) async fn crash(&self) -> anyhow::Result<()> {
        let mut server = self.server.lock().await;
        let running = server.take().context("the server has stopped")?;
        let pid_file = running.data_dir().join("pg/postmaster.pid");
        let pid = fs::read_to_string(&pid_file)?.lines().next().map(str::parse).transpose()?;
        let pid = pid.and_then(Pid::from_raw).context("no process of the server")?;
        // The same as `pg_ctl -m immediate stop`.
        kill_process(pid, Signal::QUIT)?;
        running.stop().await?;
        *server = Some(PrivatePostgres::start(&self.options).await?);
        Ok(())
    }

    /// Shuts the server down.
    pub(crate) async fn stop(&self) -> anyhow::Result<()> {
        if let Some(server) = self.server.lock().await.take() {
            server.stop().await?;
        }
        Ok(())
    }

    async fn execute(&self, sql: String) -> anyhow::Result<()> {
        let mut conn = self.admin.clone().connect().await?;
        conn.execute(AssertSqlSafe(sql)).await?;
        conn.close().await?;
        Ok(())
    }
}

/// The database of one testbed.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    options: PgConnectOptions,
    pub(crate) socket: PathBuf,
    key: Arc<ApiKey>,
}

impl Database {
    /// The URL for a node.
    pub(crate) fn url(&self, node: &str) -> String {
        self.options.clone().username(node).to_url_lossy().to_string()
    }

    /// The URL for a node whose connections go through a proxy.
    pub(crate) fn url_through(&self, node: &str, port: u16) -> String {
        let name = self.options.get_database().unwrap_or_default();
        format!("postgres://{node}:{DATABASE_PASSWORD}@127.0.0.1:{port}/{name}?sslmode=disable")
    }

    /// A pool for the test itself.
    pub(crate) fn pool(&self) -> PgPool {
        PgPoolOptions::new()
            .max_connections(4)
            .acquire_timeout(Duration::from_secs(20))
            .connect_lazy_with(self.options.clone())
    }

    /// The API key of the clients.
    pub(crate) fn key(&self) -> String {
        self.key.reveal()
    }

    /// Stores the key in a database that was created empty.
    pub(crate) async fn register_key(&self, pool: &PgPool) -> anyhow::Result<()> {
        register_key(&self.key, pool).await
    }

    /// Opens a connection outside the pool.
    pub(crate) async fn connect(&self) -> anyhow::Result<sqlx::PgConnection> {
        Ok(self.options.connect().await?)
    }
}

async fn register_key(key: &ApiKey, pool: &PgPool) -> anyhow::Result<()> {
    let (tenant_id, scope) = (TenantId::DEFAULT, Scope::Write);
    let (id, hash) = (key.id(), key.hash());
    let new = NewKey { id, tenant_id, name: "crash", hash, scope, lifetime: None };
    Ok(insert(&mut *pool.acquire().await?, &new).await?)
}
