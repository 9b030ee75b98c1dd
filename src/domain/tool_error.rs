//! Types of tool failures, and the recommended handling.

use serde::{Deserialize, Serialize};

/// The type of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ToolErrorType {
    /// The deadline passed: the outcome of the call is unknown.
    Timeout,
    /// The file must be read first.
    ReadRequired,
    /// The peer closed the connection without a response.
    McpNoResponse,
    /// The peer was unreachable.
    NetworkError,
    /// The input is invalid, or does not apply to this file.
    ValidationError,
}

/// The recommended handling of a call's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Handling {
    /// None: the call succeeded.
    Success,
    /// Check the state, then try a simpler tool.
    RetryWithFallback,
    /// Read the file, then repeat the call.
    ReadFirst,
    /// Do something else; a repetition would fail again.
    Fail,
}

impl ToolErrorType {
    const ALL: [Self; 5] = [
        Self::Timeout,
        Self::ReadRequired,
        Self::McpNoResponse,
        Self::NetworkError,
        Self::ValidationError,
    ];

    /// The type as text, on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "TIMEOUT",
            Self::ReadRequired => "READ_REQUIRED",
            Self::McpNoResponse => "MCP_NO_RESPONSE",
            Self::NetworkError => "NETWORK_ERROR",
            Self::ValidationError => "VALIDATION_ERROR",
        }
    }

    /// Parses the text that the database stores.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// Returns the type of a failure by its text, for errors of clients and servers.
    pub fn of_text(text: &str) -> Option<Self> {
        const WORDS: [(&str, ToolErrorType); 6] = [
            ("timeout", ToolErrorType::Timeout),
            ("timed out", ToolErrorType::Timeout),
            ("not been read yet", ToolErrorType::ReadRequired),
            ("no response", ToolErrorType::McpNoResponse),
            ("fetch failed", ToolErrorType::NetworkError),
            ("not found in file", ToolErrorType::ValidationError),
        ];
        WORDS.into_iter().find(|(words, _)| text.contains(words)).map(|(_, kind)| kind)
    }
}

impl Handling {
    /// Returns the recommended handling of a failure.
    pub const fn of(failure: Option<ToolErrorType>) -> Self {
        match failure {
            Some(ToolErrorType::Timeout) => Self::RetryWithFallback,
            Some(ToolErrorType::ReadRequired) => Self::ReadFirst,
            Some(
                ToolErrorType::McpNoResponse
                | ToolErrorType::NetworkError
                | ToolErrorType::ValidationError,
            )
            | None => Self::Fail,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_other_programs_map_to_the_same_types() {
        let texts = [
            "MCP error -32603: failed to evaluate permission: request timed out after 2m0s",
            "Error: timeout",
            "File has not been read yet. Read it first before writing to it.",
            "MCP error -32603: failed to evaluate permission: no response received",
            "Error calling tool (Edit): fetch failed",
            "old_string not found in file",
            "something else",
        ];
        assert_eq!(
            texts.map(ToolErrorType::of_text),
            [
                Some(ToolErrorType::Timeout),
                Some(ToolErrorType::Timeout),
                Some(ToolErrorType::ReadRequired),
                Some(ToolErrorType::McpNoResponse),
                Some(ToolErrorType::NetworkError),
                Some(ToolErrorType::ValidationError),
                None,
            ]
        );
    }

    #[test]
    fn only_a_timeout_is_retried_with_a_simpler_tool() {
        let handling: Vec<Handling> =
            ToolErrorType::ALL.into_iter().map(|kind| Handling::of(Some(kind))).collect();
        assert_eq!(
            handling,
            [
                Handling::RetryWithFallback,
                Handling::ReadFirst,
                Handling::Fail,
                Handling::Fail,
                Handling::Fail,
            ]
        );
        assert_eq!(Handling::of(None), Handling::Fail);
    }

    #[test]
    fn every_type_is_parsed_from_its_text() {
        for kind in ToolErrorType::ALL {
            assert_eq!(ToolErrorType::parse(kind.as_str()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
