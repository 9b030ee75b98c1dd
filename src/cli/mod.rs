//! The command line: one file a command.

mod healthcheck;
mod migrate;
mod openapi;
mod output;
mod serve;
mod simulator;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::LogArgs;
use crate::telemetry;

/// A tool-using agent behind one HTTP endpoint
#[derive(Debug, Parser)]
#[command(name = "twostep", version)]
pub struct Cli {
    #[command(flatten)]
    log: LogArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the API and work on runs
    Serve(Box<serve::Command>),
    /// Bring the database's schema up to this version
    Migrate(migrate::Command),
    /// Check that all that is stored is sound, whether or not a service runs
    Verify(verify::Command),
    /// Print the OpenAPI document, or compare it with a file
    Openapi(openapi::Command),
    /// Serve a scripted stand-in for the Messages API
    Simulator(simulator::Command),
    /// Ask a running service whether it can serve; for containers
    Healthcheck(healthcheck::Command),
}

impl Cli {
    /// Runs the command, and says on stderr why it failed if it did.
    pub fn run(self) -> ExitCode {
        match self.try_run() {
            Ok(status) => status,
            Err(error) => {
                output::complain(&format!("twostep: {error:#}"));
                ExitCode::FAILURE
            }
        }
    }

    fn try_run(self) -> anyhow::Result<ExitCode> {
        telemetry::init(&self.log)?;
        // One TLS provider for the whole process; a second call would be a second command.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            match self.command {
                Command::Serve(command) => command.run().await?,
                Command::Migrate(command) => command.run().await?,
                // The only one whose answer can be no.
                Command::Verify(command) => return command.run().await,
                Command::Openapi(command) => command.run()?,
                Command::Simulator(command) => command.run().await?,
                Command::Healthcheck(command) => command.run().await?,
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Fires at SIGTERM and at SIGINT.
fn shutdown_signal() -> anyhow::Result<CancellationToken> {
    let token = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let fired = token.clone();
    TaskTracker::new().spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        fired.cancel();
    });
    Ok(token)
}
