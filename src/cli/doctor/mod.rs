//! `twostep doctor`.

mod sandbox;
mod service;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use sandbox::Sandbox;
use service::Service;

const EXAMPLES: &str = "\
Examples:
  twostep doctor
  twostep doctor https://example.org/agent/
  twostep doctor --idle 60 --json http://127.0.0.1:8080";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(super) struct Command {
    #[command(subcommand)]
    subject: Option<Subject>,
    #[command(flatten)]
    service: Service,
}

#[derive(Debug, Subcommand)]
enum Subject {
    /// Check which sandbox levels of Bash work; the exit status is 0 if one does, 1 if none does
    Sandbox(Sandbox),
}

impl Command {
    /// Checks the proxies in front of a service if a URL is given, otherwise this machine.
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.subject {
            Some(Subject::Sandbox(command)) => command.run().await,
            None if self.service.is_named() => self.service.run().await,
            None => {
                let (json, folder) = (self.service.json, PathBuf::from("/tmp"));
                Sandbox { json, folder }.run().await
            }
        }
    }
}
