//! The measured services and their dependencies: Postgres and the simulator.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use private_postgres::{Durability, Options, PrivatePostgres};
use sqlx::{Connection as _, PgConnection};
use tempfile::TempDir;
use tokio::process::Command;

use crate::Args;
use crate::proc::postmaster_of;
use crate::process::Process;

/// Two replies without delay: one tool call, then a short text.
const SCRIPT: &str = r#"{
  "conversations": [ { "replies": [
    { "content": [ { "type": "tool_use", "name": "read_file", "input": { "path": "notes.txt" } } ] },
    { "content": [ { "type": "text",
      "text": "The notes list what the next release needs: two fixes, one page and a date." } ] }
  ] } ],
  "otherwise": "refuse"
}"#;

/// A line of the file that the tool reads, which has about one kilobyte.
const LINE: &str = "The next release needs two fixes, one page of documentation and a date.\n";
const LINES: usize = 14;

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
}

impl Stack {
    pub(crate) async fn start(args: &Args) -> anyhow::Result<Self> {
        // Not under TMPDIR: the user that root starts Postgres as must be able to access it.
        let folder = tempfile::Builder::new()
            .prefix("twostep-load-")
            .permissions(Permissions::from_mode(0o755))
            .tempdir_in("/tmp")?;
        fs::create_dir(folder.path().join("work"))?;
        fs::write(folder.path().join("work/notes.txt"), LINE.repeat(LINES))?;
        fs::write(folder.path().join("script.json"), SCRIPT)?;
        let mut this = Self {
            service: args.service.clone(),
            postgres: None,
            simulator: None,
            database_url: args.database_url.clone().unwrap_or_default(),
            postmaster: None,
            folder,
        };
        if this.database_url.is_empty() {
            let postgres = PrivatePostgres::start(&Options {
                data_dir: this.folder.path().join("database"),
                bin_dir: args.pg_bin_dir.clone(),
                search_path: std::env::var_os("PATH"),
                durability: Durability::Durable,
            })
            .await?;
            this.database_url = postgres.url();
            this.postgres = Some(postgres);
        }
        let mut conn = this.connect().await?;
        let backend: i32 =
            sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut conn).await?;
        this.postmaster = u32::try_from(backend).ok().and_then(postmaster_of);
        conn.close().await?;
        this.simulator = Some(this.start_simulator().await?);
        Ok(this)
    }

    /// Connects to the shared database.
    pub(crate) async fn connect(&self) -> anyhow::Result<PgConnection> {
        PgConnection::connect(&self.database_url).await.context("the database cannot be reached")
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
        let mut command = self.service_command();
        command.args(["--database-url", &self.database_url]);
        Process::start("the service", &self.log("service"), command).await
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

    /// Starts the floor, which is a subcommand of this program.
    pub(crate) async fn start_floor(&self) -> anyhow::Result<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args([crate::FLOOR, "--database-url", &self.database_url])
            .args(["--model-url", &self.model_url()])
            .arg("--shared-workspace")
            .arg(self.workspace());
        Process::start("the floor", &self.log("floor"), command).await
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
