//! The protocols in which models are spoken to.

use serde::{Deserialize, Serialize};

/// A protocol of model servers. The history is kept in the form of the first one, whichever is
/// spoken, so that a session may go from one to the other.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
    clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// The Anthropic Messages API.
    #[default]
    Anthropic,
    /// Chat Completions.
    #[value(name = "openai")]
    OpenAi,
}

/// In what servers of Chat Completions differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Dialect {
    /// The name of the output budget.
    pub max_tokens_field: MaxTokensField,
    /// Whether images are sent; else they are told in words.
    pub takes_images: bool,
}

/// The name of the output budget.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// The old one, which most servers know.
    #[value(name = "max_tokens")]
    MaxTokens,
    /// The new one, which newer models of the first server insist on.
    #[value(name = "max_completion_tokens")]
    MaxCompletionTokens,
}

impl Provider {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        }
    }

    /// What the service knows and the protocol has no place for: such settings are not sent, and
    /// such blocks of the history are left out or told in words.
    pub const fn lacks(self) -> &'static [&'static str] {
        match self {
            Self::Anthropic => &[],
            Self::OpenAi => &[
                "beta_features",
                "cache_marks",
                "citations",
                "compaction",
                "context_edits",
                "documents",
                "model_metadata",
                "pause_turn",
                "redacted_thinking",
                "server_tools",
                "service_tier",
                "stop_sequence_name",
                "thinking",
                "tool_result_errors",
                "tool_result_images",
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_the_missing_features() {
        let page = include_str!("../../docs/model-servers.md");
        for word in Provider::OpenAi.lacks() {
            assert!(page.contains(&format!("`{word}`")), "{word}");
        }
    }
}
