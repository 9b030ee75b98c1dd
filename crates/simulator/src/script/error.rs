//! The errors of a script.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// An invalid script. The message names the field and, where known, the line.
#[derive(Debug, Error)]
pub enum ScriptError {
    /// The text is not JSON, or a field is unknown or has the wrong type.
    #[error("script, at `{field}`: {cause}")]
    Json {
        /// The path of the field, such as `conversations[0].replies[1].content[0]`.
        field: String,
        /// The error, with line and column.
        cause: serde_json::Error,
    },
    /// The JSON has the right types but breaks a rule.
    #[error("script, at `{field}`: {problem}")]
    Field {
        /// The path of the field.
        field: String,
        /// The broken rule.
        problem: String,
    },
    /// The script, or a file that it names, cannot be read.
    #[error("script file `{}`: {cause}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
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
