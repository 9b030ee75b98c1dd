//! The hidden command that extracts text from PDF documents.

use std::process::ExitCode;

use clap::Args;

use super::output;
use crate::tools::pdf::{Stage, enter};

#[derive(Debug, Args)]
pub(super) struct Command {
    #[arg(value_enum)]
    stage: Stage,
    /// Maximum number of bytes of text
    max_bytes: usize,
}

impl Command {
    /// Prints the reason of a failure to stderr, which the parent process logs.
    pub(super) fn run(&self) -> ExitCode {
        enter(self.stage, self.max_bytes).unwrap_or_else(|reason| {
            output::print_error(&reason);
            ExitCode::FAILURE
        })
    }
}
