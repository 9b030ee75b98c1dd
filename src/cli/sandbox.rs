//! The hidden command that commands of the model are started by.

use std::process::ExitCode;

use clap::Args;

use super::output;
use sandbox::{Stage, enter, failed};

#[derive(Debug, Args)]
pub(super) struct Command {
    #[arg(value_enum)]
    stage: Stage,
    surroundings: String,
    #[arg(allow_hyphen_values = true)]
    script: String,
}

impl Command {
    /// What goes wrong before the command begins is told on stderr, which the service reads.
    pub(super) fn run(&self) -> ExitCode {
        enter(self.stage, &self.surroundings, &self.script).unwrap_or_else(|why| {
            output::complain(&why);
            failed()
        })
    }
}
