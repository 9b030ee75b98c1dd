//! The protocols of model servers.

use serde::{Deserialize, Serialize};

/// A protocol of model servers. The history is stored in the form of the Messages API for every
/// protocol, so that a session can change between them.
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
    /// Responses of `OpenAI`.
    #[value(name = "openai-responses")]
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
}

/// The differences between Chat Completions servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Dialect {
    /// The request member that carries the output budget.
    pub max_tokens_field: MaxTokensField,
    /// True if images are sent; otherwise a text placeholder is sent.
    pub takes_images: bool,
}

/// The request member that carries the output budget.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// The older member, which most servers support.
    #[value(name = "max_tokens")]
    MaxTokens,
    /// The newer member, which newer `OpenAI` models require.
    #[value(name = "max_completion_tokens")]
    MaxCompletionTokens,
}

/// True if this host has the original server of Chat Completions. Compatible servers differ from it.
pub fn is_openai(host: Option<&str>) -> bool {
    host == Some("api.openai.com")
}

impl MaxTokensField {
    /// The member that the original server of Chat Completions expects, or that compatible ones do.
    pub const fn usual(is_openai: bool) -> Self {
        if is_openai { Self::MaxCompletionTokens } else { Self::MaxTokens }
    }
}

impl Provider {
    /// The protocol as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai-responses",
        }
    }

    /// Features of the service that the protocol does not support: such settings are not sent, and
    /// such blocks of the history are omitted or described in text.
    pub const fn lacks(self) -> &'static [&'static str] {
        match self {
            Self::Anthropic => &[],
            Self::OpenAi => &[
                "beta_features",
                "cache_marks",
                "citations",
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
            Self::OpenAiResponses => &[
                "beta_features",
                "cache_marks",
                "citations",
                "context_edits",
                "documents",
                "model_metadata",
                "pause_turn",
                "redacted_thinking",
                "server_tools",
                "service_tier",
                "stop_sequences",
                "tool_result_errors",
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
        for word in [Provider::OpenAi, Provider::OpenAiResponses].iter().flat_map(|it| it.lacks()) {
            assert!(page.contains(&format!("`{word}`")), "{word}");
        }
    }
}
