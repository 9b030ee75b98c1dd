//! `twostep simulator`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use tokio::net::TcpListener;

use super::output;
use super::signals::shutdown_signal;
use simulator::{Options, Script, Simulator};

#[derive(Debug, Args)]
pub(super) struct Command {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:8089")]
    bind: SocketAddr,
    /// Script of the simulator [default: a demonstration]
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
}

impl Command {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let shutdown = shutdown_signal()?;
        let script = match &self.script {
            Some(path) => Script::from_file(path)
                .with_context(|| format!("the script {} cannot be used", path.display()))?,
            None => Script::demo(),
        };
        let listener = TcpListener::bind(self.bind)
            .await
            .with_context(|| format!("the address {} cannot be bound", self.bind))?;
        let options = Options { simulates_cache: true, ..Options::default() };
        let simulator = Simulator::start(listener, script, options);
        output::print_line(&format!(
            "the simulator, which is not a language model, serves the Messages API and Chat \
             Completions at {}",
            simulator.base_url()
        ));
        shutdown.cancelled().await;
        simulator.stop().await;
        Ok(())
    }
}
