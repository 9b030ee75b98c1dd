//! The measured services and their dependencies: Postgres and the simulator.

use std::cell::Cell;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use private_postgres::{Durability, Options, PrivatePostgres};
use serde_json::json;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, PgConnection};
use tempfile::TempDir;
use tokio::process::Command;

use crate::plan::Plan;
use crate::proc::postmaster_of;
use crate::process::Process;

/// The user's text that gets a slow reply.
pub(crate) const SLOW_TEXT: &str = "Answer slowly.";
/// The number of deltas of a slow reply. A delta has twelve characters.
const DELTAS: u32 = 40;

/// The script of the simulator. The slow reply has its first delta at once, then the others and
/// three more events. The other conversation has two replies without delay: one tool call, then a
/// short text.
fn script(slow_reply: Duration) -> String {
    let pause = slow_reply / (DELTAS - 1 + 3);
    let pace_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
    json!({
        "conversations": [
            { "when": SLOW_TEXT, "replies": [ {
                "content": [ { "type": "text", "text": "Twelve signs".repeat(40) } ],
                "pace_ms": pace_ms, "pace_after": 4,
            } ] },
            { "replies": [
                { "content": [
                    { "type": "tool_use", "name": "read_file", "input": { "path": "notes.txt" } },
                ] },
                { "content": [ {
                    "type": "text",
                    "text": "The notes list what the next release needs: two fixes, one page and \
                             a date.",
                } ] },
            ] },
        ],
        "otherwise": "refuse",
    })
    .to_string()
}

/// A line of the file that the tool reads, which has about one kilobyte.
const LINE: &str = "The next release needs two fixes, one page of documentation and a date.\n";
const LINES: usize = 14;

const TRACK_PLANNING: &str = "ALTER SYSTEM SET pg_stat_statements.track_planning = on";
const TRACK_ALL: &str = "ALTER SYSTEM SET pg_stat_statements.track = 'all'";
const TRACK_NONE: &str = "ALTER SYSTEM SET pg_stat_statements.track = 'none'";

/// Starts a durable server, with the library `pg_stat_statements` if it is installed.
async fn start_postgres(data_dir: &Path, plan: &Plan) -> anyhow::Result<PrivatePostgres> {
    let options = Options {
        data_dir: data_dir.to_owned(),
        bin_dir: plan.pg_bin_dir.clone(),
        search_path: std::env::var_os("PATH"),
        durability: Durability::Durable,
    };
    let postgres = PrivatePostgres::start(&options).await?;
    let mut conn = PgConnection::connect(&postgres.url()).await?;
    let is_installed: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pg_stat_statements')",
    )
    .fetch_one(&mut conn)
    .await?;
    if !is_installed {
        return Ok(postgres);
    }
    conn.execute("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'").await?;
    conn.close().await?;
    postgres.stop().await?;
    Ok(PrivatePostgres::start(&options).await?)
}

/// The dependencies of all measured services.
#[derive(Debug)]
pub(crate) struct Stack {
    folder: TempDir,
    service: PathBuf,
    postgres: Option<PrivatePostgres>,
    simulator: Option<Process>,
    pub(crate) database_url: String,
    /// The process id of the postmaster, if the database runs on this machine.
    pub(crate) postmaster: Option<u32>,
    /// True if the time of statements can be measured.
    pub(crate) has_statements: bool,
    /// The number of databases and services, for their names.
    count: Cell<u32>,
}

impl Stack {
    pub(crate) async fn start(plan: &Plan) -> anyhow::Result<Self> {
        // Not under TMPDIR: the user that root starts Postgres as must be able to access it.
        let folder = tempfile::Builder::new()
            .prefix("twostep-load-")
            .permissions(Permissions::from_mode(0o755))
            .tempdir_in("/tmp")?;
        fs::create_dir(folder.path().join("work"))?;
        fs::write(folder.path().join("work/notes.txt"), LINE.repeat(LINES))?;
        fs::write(folder.path().join("script.json"), script(plan.slow_reply))?;
        let mut this = Self {
            service: plan.service.clone(),
            postgres: None,
            simulator: None,
            database_url: plan.database_url.clone().unwrap_or_default(),
            postmaster: None,
            has_statements: false,
            count: Cell::new(0),
            folder,
        };
        if this.database_url.is_empty() {
            let postgres = start_postgres(&this.folder.path().join("database"), plan).await?;
            this.database_url = postgres.url();
            this.postgres = Some(postgres);
        }
        let mut conn = this.connect().await?;
        this.has_statements = this.prepare_statements(&mut conn).await;
        let backend: i32 =
            sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut conn).await?;
        this.postmaster = u32::try_from(backend).ok().and_then(postmaster_of);
        conn.close().await?;
        this.simulator = Some(this.start_simulator().await?);
        Ok(this)
    }

    /// Connects to the shared database.
    pub(crate) async fn connect(&self) -> anyhow::Result<PgConnection> {
        self.connect_to(&self.database_url).await
    }

    pub(crate) async fn connect_to(&self, url: &str) -> anyhow::Result<PgConnection> {
        PgConnection::connect(url).await.context("the database cannot be reached")
    }

    /// Creates an empty database on the same server and returns its URL.
    pub(crate) async fn create_database(&self) -> anyhow::Result<String> {
        let name = format!("load_{}_{}", std::process::id(), self.next_number());
        let mut conn = self.connect().await?;
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut conn).await?;
        let options: PgConnectOptions = self.database_url.parse()?;
        Ok(options.database(&name).to_url_lossy().into())
    }

    fn next_number(&self) -> u32 {
        self.count.set(self.count.get() + 1);
        self.count.get()
    }

    /// Returns whether the view `pg_stat_statements` can be read in the shared database.
    async fn prepare_statements(&self, conn: &mut PgConnection) -> bool {
        let create = "CREATE EXTENSION IF NOT EXISTS pg_stat_statements";
        conn.execute(create).await.is_ok()
            && conn.execute("SELECT FROM pg_stat_statements LIMIT 1").await.is_ok()
            && self.track_statements(conn, false).await.is_ok()
    }

    /// Switches the measurement of statements on or off. The settings of a server that this program
    /// has not started stay as they are.
    pub(crate) async fn track_statements(
        &self,
        conn: &mut PgConnection,
        is_on: bool,
    ) -> anyhow::Result<()> {
        if self.postgres.is_none() {
            return Ok(());
        }
        let track = if is_on { TRACK_ALL } else { TRACK_NONE };
        for statement in [TRACK_PLANNING, track, "SELECT pg_reload_conf()"] {
            conn.execute(statement).await?;
        }
        Ok(())
    }

    pub(crate) fn simulator_pid(&self) -> Option<u32> {
        self.simulator.as_ref().map(|simulator| simulator.pid)
    }

    async fn start_simulator(&self) -> anyhow::Result<Process> {
        let mut command = Command::new(&self.service);
        command.args(["simulator", "--bind", "127.0.0.1:0", "--script"]);
        command.arg(self.folder.path().join("script.json"));
        Process::start("the simulator", &self.log("simulator"), command).await
    }

    /// Starts the service on the shared database.
    pub(crate) async fn start_service(&self) -> anyhow::Result<Process> {
        self.start_service_on(&self.database_url).await
    }

    /// Starts the service on a database of the server.
    pub(crate) async fn start_service_on(&self, url: &str) -> anyhow::Result<Process> {
        let name = format!("service-{}", self.next_number());
        let mut command = self.service_command();
        command.args(["--database-url", url]);
        command.arg("--data-dir").arg(self.folder.path().join(&name));
        Process::start("the service", &self.log(&name), command).await
    }

    /// Starts the service with a private database server, which the first start creates.
    pub(crate) async fn start_service_with_private_postgres(&self) -> anyhow::Result<Process> {
        let mut command = self.service_command();
        command.env_remove("DATABASE_URL");
        command.arg("--data-dir").arg(self.folder.path().join("own"));
        Process::start("the service", &self.log("private-postgres"), command).await
    }

    fn service_command(&self) -> Command {
        let mut command = Command::new(&self.service);
        command
            .args(["serve", "--bind", "127.0.0.1:0", "--auth", "open", "--model", "claude-load"])
            .args(["--anthropic-base-url", &self.model_url()])
            .arg("--shared-workspace")
            .arg(self.workspace())
            .env("ANTHROPIC_API_KEY", "dummy");
        command
    }

    /// Starts the reference service, which is a subcommand of this program.
    pub(crate) async fn start_reference(&self) -> anyhow::Result<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args([crate::REFERENCE, "--database-url", &self.database_url])
            .args(["--model-url", &self.model_url()])
            .arg("--shared-workspace")
            .arg(self.workspace());
        Process::start("the reference service", &self.log("reference"), command).await
    }

    fn model_url(&self) -> String {
        let address = self.simulator.as_ref().map(|simulator| simulator.address);
        address.map_or_else(String::new, |address| format!("http://{address}"))
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn log(&self, name: &str) -> PathBuf {
        Path::new(self.folder.path()).join(name).with_extension("log")
    }

    /// Stops all processes. Dropping kills those that could not be stopped.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        if let Some(simulator) = self.simulator.take() {
            simulator.stop().await?;
        }
        if let Some(postgres) = self.postgres.take() {
            postgres.stop().await?;
        }
        Ok(self.folder.close()?)
    }
}
