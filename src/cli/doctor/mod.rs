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
    /// Try the sandboxes that Bash can run in; the status is 0 if one works, 1 if none does
    Sandbox(Sandbox),
}

impl Command {
    /// Looks at the way to a service if one is named, else at the machine.
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
