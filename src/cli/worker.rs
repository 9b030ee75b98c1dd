//! `twostep worker`.

use clap::Args;

use super::serve::{Summary, reachable, summarize};
use super::signals::{Hangups, shutdown_signal};
use super::{open_files, output};
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
        open_files::raise_limit(&config);
        let Summary { database, model, workspace, .. } = summarize(&config);
        // Before anything is started, so that a signal always shuts down gracefully.
        let (shutdown, hangups) = (shutdown_signal()?, Hangups::new()?);
        let app = Application::build_until(config, &shutdown).await?;
        hangups.reload(app.reloader(), shutdown.clone());
        output::print_line(&format!("twostep {} executes runs", env!("CARGO_PKG_VERSION")));
        if let Some(address) = app.address() {
            output::print_line(&format!("  health     http://{}/readyz", reachable(address)));
        }
        output::print_line(&format!("  database   {database}"));
        output::print_line(&format!("  model      {model}"));
        output::print_line(&format!("  workspace  {workspace}"));
        app.run_until_stopped(shutdown).await
    }
}
