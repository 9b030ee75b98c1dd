//! The usage of a response.

use serde::Serialize;

use crate::domain::usage::Usage;

/// The tokens of the model requests of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ResponseUsage {
    /// The tokens of the input, with those that were cached.
    input_tokens: i64,
    input_tokens_details: InputTokensDetails,
    output_tokens: i64,
    output_tokens_details: OutputTokensDetails,
    total_tokens: i64,
}

/// Tokens of the input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct InputTokensDetails {
    /// The tokens that were read from the cache.
    cached_tokens: i64,
    /// The tokens that were written to the cache.
    cache_write_tokens: i64,
}

/// Tokens of the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct OutputTokensDetails {
    /// The tokens of the reasoning.
    reasoning_tokens: i64,
}

impl From<Usage> for ResponseUsage {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.prompt(),
            input_tokens_details: InputTokensDetails {
                cached_tokens: usage.cache_read_input_tokens,
                cache_write_tokens: usage.cache_creation_input_tokens,
            },
            output_tokens: usage.output_tokens,
            output_tokens_details: OutputTokensDetails { reasoning_tokens: usage.thinking_tokens },
            total_tokens: usage.total(),
        }
    }
}
