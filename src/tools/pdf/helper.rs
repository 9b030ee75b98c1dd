//! The helper: the process that reads a document. It is the executable of the service.
//!
//! The first stage sets resource limits and executes itself again. The second stage drops access to
//! files, network and other processes, and only then reads the first byte.

use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use pdf_text::{Document, ExtractError, extract};

use super::{COMMAND, OURSELVES, confine};

/// The stages of the helper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Stage {
    /// Limits memory and time, and executes the second stage, whose whole memory then counts.
    Limit,
    /// Drops all other access and reads the document.
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

/// The command line arguments of a stage.
pub(super) fn arguments(stage: Stage, max_bytes: usize) -> [String; 3] {
    [COMMAND.to_owned(), stage.as_str().to_owned(), max_bytes.to_string()]
}

/// Runs a stage of the helper. It reads the document from stdin and writes at most `max_bytes` bytes
/// of text to stdout as JSON. The caller prints the reason of a failure to stderr.
pub fn enter(stage: Stage, max_bytes: usize) -> Result<ExitCode, String> {
    match stage {
        Stage::Limit => {
            confine::limit()?;
            let error = Command::new(OURSELVES)
                .args(arguments(Stage::Read, max_bytes))
                .env_clear()
                .current_dir("/")
                .exec();
            Err(format!("the second stage cannot be started: {error}"))
        }
        Stage::Read => {
            confine::drop_access()?;
            let result = read_document(max_bytes)
                .map_err(|error| format!("the document cannot be read from stdin: {error}"))?;
            write_result(&result)
                .map_err(|error| format!("the result cannot be written to stdout: {error}"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn read_document(max_bytes: usize) -> io::Result<Result<Document, ExtractError>> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(extract(bytes, max_bytes))
}

fn write_result(result: &Result<Document, ExtractError>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(&serde_json::to_vec(result)?)?;
    out.flush()
}
