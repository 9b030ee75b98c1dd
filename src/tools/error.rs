//! Errors of calls.

use crate::domain::tool_error::ToolErrorType;

/// The format of error texts for the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorStyle {
    /// `Error: ...`
    Plain,
    /// `<tool_use_error>...</tool_use_error>`
    Wrapped,
}

impl ErrorStyle {
    /// Formats an error text for the model.
    pub fn format(self, text: &str) -> String {
        match self {
            Self::Plain => format!("Error: {text}"),
            Self::Wrapped => format!("<tool_use_error>{text}</tool_use_error>"),
        }
    }
}

/// The reason why a call failed. The text is for the model and states the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The input is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The call failed.
    #[error("{0}")]
    Failed(String),
    /// The model has to read the file before it changes it.
    #[error("{0}")]
    ReadRequired(String),
    /// The call exceeded its deadline. Its effect may have happened.
    #[error("{0}")]
    Timeout(String),
    /// The remote server did not respond.
    #[error("{0}")]
    NoResponse(String),
    /// The remote server could not be reached.
    #[error("{0}")]
    Network(String),
}

impl ToolError {
    /// The error type that clients receive and the ledger stores.
    pub const fn error_type(&self) -> Option<ToolErrorType> {
        match self {
            Self::Invalid(_) => Some(ToolErrorType::ValidationError),
            Self::Failed(_) => None,
            Self::ReadRequired(_) => Some(ToolErrorType::ReadRequired),
            Self::Timeout(_) => Some(ToolErrorType::Timeout),
            Self::NoResponse(_) => Some(ToolErrorType::McpNoResponse),
            Self::Network(_) => Some(ToolErrorType::NetworkError),
        }
    }
}
