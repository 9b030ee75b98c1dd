//! The process that reads a document: this same program, started once more, with nothing to lose.
//!
//! Its first stage leaves behind what it was started with and limits what is to come; the second
//! gives up files, network and all other processes, and only then reads the first byte.

use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use pdf_text::{Document, NoText, extract};

use super::{COMMAND, OURSELVES, confine};

/// Which part of the way a process of the helper is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Stage {
    /// Limits memory and time, and begins anew, so that all it has counts.
    Limit,
    /// Gives up all else, and reads.
    Read,
}

impl Stage {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Read => "read",
        }
    }
}

/// What leads to a stage on the command line.
pub(super) fn arguments(stage: Stage, most: usize) -> [String; 3] {
    [COMMAND.to_owned(), stage.as_str().to_owned(), most.to_string()]
}

/// A stage of the helper: a document comes by stdin, and its text, of so many bytes at most, goes
/// to stdout as JSON. Why it failed, if it did, is on stderr, for whoever started it.
pub fn enter(stage: Stage, most: usize) -> Result<ExitCode, String> {
    match stage {
        Stage::Limit => {
            confine::limit()?;
            let again = Command::new(OURSELVES)
                .args(arguments(Stage::Read, most))
                .env_clear()
                .current_dir("/")
                .exec();
            Err(format!("it cannot be started: {again}"))
        }
        Stage::Read => {
            confine::give_up()?;
            let result = taken(most).map_err(|error| format!("no document: {error}"))?;
            told(&result).map_err(|error| format!("nobody listens: {error}"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn taken(most: usize) -> io::Result<Result<Document, NoText>> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(extract(bytes, most))
}

fn told(result: &Result<Document, NoText>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(&serde_json::to_vec(result)?)?;
    out.flush()
}
