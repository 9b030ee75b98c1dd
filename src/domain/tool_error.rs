//! Of what type the failure of a tool call is, and what there is to do about it.

use serde::{Deserialize, Serialize};

/// The type of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ToolErrorType {
    /// The deadline passed: nobody knows what became of the call.
    Timeout,
    /// The file has to be read first.
    ReadRequired,
    /// Who was asked closed the connection without an answer.
    McpNoResponse,
    /// Who was to be asked could not be reached.
    NetworkError,
    /// The input means nothing, or not to this file.
    ValidationError,
}

/// What there is to do about the result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Handling {
    /// Nothing: it went well.
    Success,
    /// Look at what happened, then try a simpler tool.
    RetryWithFallback,
    /// Read the file, then try again.
    ReadFirst,
    /// Do something else.
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

    /// The word on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "TIMEOUT",
            Self::ReadRequired => "READ_REQUIRED",
            Self::McpNoResponse => "MCP_NO_RESPONSE",
            Self::NetworkError => "NETWORK_ERROR",
            Self::ValidationError => "VALIDATION_ERROR",
        }
    }

    /// Reads the word in the database.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// The type of a failure of which only the text is known, such as a client's or a server's.
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
    /// What there is to do about a call that failed in this way.
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
    fn only_a_timeout_is_worth_a_simpler_tool() {
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
    fn words_are_read_back() {
        for kind in ToolErrorType::ALL {
            assert_eq!(ToolErrorType::parse(kind.as_str()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
