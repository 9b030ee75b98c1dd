//! `twostep worker`.

use clap::Args;

use super::serve::{Summary, reachable, summarize};
use super::{output, shutdown_signal};
use crate::app::Application;
use crate::config::WorkerArgs;

#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(flatten)]
    args: WorkerArgs,
}

impl Command {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let config = self.args.into_config()?;
        let Summary { database, model, workspace, .. } = summarize(&config);
        // Before anything is started, so that a signal always shuts down gracefully.
        let shutdown = shutdown_signal()?;
        let app = Application::build(config).await?;
        output::say(&format!("twostep {} executes runs", env!("CARGO_PKG_VERSION")));
        if let Some(address) = app.address() {
            output::say(&format!("  health     http://{}/readyz", reachable(address)));
        }
        output::say(&format!("  database   {database}"));
        output::say(&format!("  model      {model}"));
        output::say(&format!("  workspace  {workspace}"));
        app.run_until_stopped(shutdown).await
    }
}
