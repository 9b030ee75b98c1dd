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
    /// The error of a failed request to `server`, such as `the weather service`.
    pub(super) fn of_request(error: &reqwest::Error, server: &str) -> Self {
        if error.is_timeout() {
            return Self::Timeout(format!("{server} did not answer in time"));
        }
        Self::Network(format!("fetch failed: {server} cannot be reached"))
    }

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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_request_without_an_answer_in_time_is_a_timeout_and_no_network_error() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        // The server accepts the connection and never answers.
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", server.local_addr().unwrap());
        let client = reqwest::Client::builder().timeout(Duration::from_millis(50)).build().unwrap();
        let error = client.get(&url).send().await.unwrap_err();
        let timeout = ToolError::of_request(&error, "the service");
        assert_eq!(timeout, ToolError::Timeout("the service did not answer in time".to_owned()));
        drop(server);
        let error = client.get(&url).send().await.unwrap_err();
        let expected = "fetch failed: the service cannot be reached".to_owned();
        let network = ToolError::of_request(&error, "the service");
        assert_eq!(network, ToolError::Network(expected));
    }
}
