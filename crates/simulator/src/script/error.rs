//! Why a script cannot be played.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A script that cannot be played; the message names the field and, where known, the line.
#[derive(Debug, Error)]
pub enum ScriptError {
    /// Not JSON, or a field that the format does not have or takes otherwise.
    #[error("script, at `{field}`: {cause}")]
    Json {
        /// The path of the field, such as `conversations[0].replies[1].content[0]`.
        field: String,
        /// What is wrong there, with line and column.
        cause: serde_json::Error,
    },
    /// The JSON is well-formed but cannot be played.
    #[error("script, at `{field}`: {problem}")]
    Field {
        /// The path of the field.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The script, or a file it names, cannot be read.
    #[error("script file `{}`: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        cause: io::Error,
    },
}

impl ScriptError {
    pub(super) fn field(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Field { field: field.into(), problem: problem.into() }
    }

    pub(super) fn file(path: &Path, source: io::Error) -> Self {
        Self::File { path: path.to_owned(), cause: source }
    }

    pub(super) fn trailing(source: serde_json::Error) -> Self {
        Self::Json { field: ".".to_owned(), cause: source }
    }
}

impl From<serde_path_to_error::Error<serde_json::Error>> for ScriptError {
    fn from(error: serde_path_to_error::Error<serde_json::Error>) -> Self {
        Self::Json { field: error.path().to_string(), cause: error.into_inner() }
    }
}
