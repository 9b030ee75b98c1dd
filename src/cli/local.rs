//! A service for the time of one command.

use std::path::PathBuf;

use clap::{Args, Parser};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::client::{Client, ServerArgs};
use crate::app::Application;
use crate::config::ServeArgs;

/// Which service is asked, if not one that runs already.
#[derive(Debug, Args)]
pub(super) struct LocalArgs {
    /// Ask a service that is started for this command, on a port of its own, in place of
    /// --server; the variables of `twostep serve` say how
    #[arg(long)]
    local: bool,
    /// With --local: use the built-in simulator in place of a model
    #[arg(long, requires = "local")]
    offline: bool,
    /// With --local: the folder to work in [default: each session has one of its own]
    #[arg(long, requires = "local", value_name = "FOLDER")]
    workspace: Option<PathBuf>,
}

/// What `serve` would do by the environment, but for what is said here.
#[derive(Debug, Parser)]
struct Serve {
    #[command(flatten)]
    args: ServeArgs,
}

/// The service that a command asks.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) client: Client,
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Service {
    /// The one that is named, or one of its own.
    pub(super) async fn open(server: &ServerArgs, local: &LocalArgs) -> anyhow::Result<Self> {
        if !local.local {
            return Ok(Self { client: Client::new(server)?, own: None });
        }
        let app = Box::pin(Application::build(local.serve()?.into_config()?)).await?;
        let mut server = ServerArgs { key: None, ..server.clone() };
        if let Some(address) = app.address() {
            server.server = format!("http://{address}").parse()?;
        }
        let stop = CancellationToken::new();
        let task = TaskTracker::new().spawn(app.run_until_stopped(stop.clone()));
        Ok(Self { client: Client::new(&server)?, own: Some(Own { stop, task }) })
    }

    /// Stops it, if it is the command's own.
    pub(super) async fn close(self) -> anyhow::Result<()> {
        let Some(Own { stop, task }) = self.own else { return Ok(()) };
        stop.cancel();
        task.await?
    }
}

impl LocalArgs {
    fn serve(&self) -> anyhow::Result<ServeArgs> {
        let mut words = vec!["serve".into(), "--bind=127.0.0.1:0".into(), "--auth=open".into()];
        words.push("--no-worker=false".into());
        if self.offline {
            words.push("--offline".into());
        }
        if let Some(folder) = &self.workspace {
            words.extend(["--workspace".into(), folder.clone().into_os_string()]);
        }
        Ok(Serve::try_parse_from(words)?.args)
    }
}
