//! The hidden command that reads PDF documents.

use std::process::ExitCode;

use clap::Args;

use super::output;
use crate::tools::pdf::{Stage, enter};

#[derive(Debug, Args)]
pub(super) struct Command {
    #[arg(value_enum)]
    stage: Stage,
    /// Bytes of text at most
    most: usize,
}

impl Command {
    /// What goes wrong before the document is read is told on stderr, which is looked at.
    pub(super) fn run(&self) -> ExitCode {
        enter(self.stage, self.most).unwrap_or_else(|why| {
            output::complain(&why);
            ExitCode::FAILURE
        })
    }
}
