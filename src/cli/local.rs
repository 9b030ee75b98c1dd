//! A service that runs only while one command runs.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::client::{Client, ServerArgs};
use crate::app::Application;
use crate::config::{ServeArgs, accept_old_variables};

/// Options for a service that is started for the command.
#[derive(Debug, Args)]
pub(super) struct LocalArgs {
    /// Start a service for this command on a free port instead of using --server; it reads the
    /// variables of `twostep serve`
    #[arg(long)]
    local: bool,
    /// With --local: use the built-in simulator instead of a model
    #[arg(long, requires = "local")]
    offline: bool,
    /// With --local: workspace folder [default: each session has a folder of its own]
    #[arg(long, requires = "local", value_name = "FOLDER")]
    workspace: Option<PathBuf>,
}

/// The options of `serve` from the environment and from the given arguments.
#[derive(Debug, Parser)]
struct Serve {
    #[command(flatten)]
    args: ServeArgs,
}

/// The service that a command uses.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) client: Client,
    local: Option<LocalService>,
}

#[derive(Debug)]
struct LocalService {
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Service {
    /// Connects to the service of --server, or starts one.
    pub(super) async fn open(server: &ServerArgs, local: &LocalArgs) -> anyhow::Result<Self> {
        if !local.local {
            return Ok(Self { client: Client::new(server)?, local: None });
        }
        let app = Box::pin(Application::build(local.serve()?.into_config()?)).await?;
        let mut server = ServerArgs { is_open: true, ..server.clone() };
        if let Some(address) = app.address() {
            server.server = format!("http://{address}").parse()?;
        }
        let stop = CancellationToken::new();
        let task = TaskTracker::new().spawn(app.run_until_stopped(stop.clone()));
        Ok(Self { client: Client::new(&server)?, local: Some(LocalService { stop, task }) })
    }

    /// Stops the service if this command started it.
    pub(super) async fn close(self) -> anyhow::Result<()> {
        let Some(LocalService { stop, task }) = self.local else { return Ok(()) };
        stop.cancel();
        task.await?
    }
}

impl LocalArgs {
    fn serve(&self) -> anyhow::Result<ServeArgs> {
        let mut args = vec!["serve".into(), "--bind=127.0.0.1:0".into(), "--auth=open".into()];
        args.push("--no-worker=false".into());
        if self.offline {
            args.push("--offline".into());
        }
        if let Some(folder) = &self.workspace {
            args.extend(["--shared-workspace".into(), folder.clone().into_os_string()]);
        }
        let command = accept_old_variables(Serve::command());
        Ok(Serve::from_arg_matches(&command.try_get_matches_from(args)?)?.args)
    }
}
