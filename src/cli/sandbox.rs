//! The hidden command that starts Bash commands in the sandbox.

use std::process::ExitCode;

use clap::Args;

use super::output;
use sandbox::{Stage, enter, failed};

#[derive(Debug, Args)]
pub(super) struct Command {
    #[arg(value_enum)]
    stage: Stage,
    parameters: String,
    #[arg(allow_hyphen_values = true)]
    script: String,
}

impl Command {
    /// Runs the command. The service reads errors of the sandbox from stderr.
    pub(super) fn run(&self) -> ExitCode {
        enter(self.stage, &self.parameters, &self.script).unwrap_or_else(|why| {
            output::print_error(&why);
            failed()
        })
    }
}
