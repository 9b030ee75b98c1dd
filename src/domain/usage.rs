//! Token usage of model requests, in counts that can be summed.

use std::ops::{AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// Token usage of one request, or a sum. A count that the server does not report is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Usage {
    /// Input tokens that were neither read from the cache nor written to it.
    pub input_tokens: i64,
    /// Input tokens written to the cache.
    pub cache_creation_input_tokens: i64,
    /// Input tokens read from the cache.
    pub cache_read_input_tokens: i64,
    /// Output tokens, including thinking.
    pub output_tokens: i64,
    /// The part of `cache_creation_input_tokens` that is cached for an hour, at a higher price.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_creation_1h_input_tokens: i64,
    /// The part of `output_tokens` that is thinking.
    #[serde(skip_serializing_if = "is_zero")]
    pub thinking_tokens: i64,
    /// Number of web searches by the model provider.
    #[serde(skip_serializing_if = "is_zero")]
    pub web_search_requests: i64,
    /// Number of pages fetched by the model provider.
    #[serde(skip_serializing_if = "is_zero")]
    pub web_fetch_requests: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde takes")]
const fn is_zero(count: &i64) -> bool {
    *count == 0
}

impl Usage {
    /// Returns the tokens of the prompt, cached or not.
    pub const fn prompt(&self) -> i64 {
        self.input_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens
    }

    /// Returns all tokens that count against a token limit.
    pub const fn total(&self) -> i64 {
        self.prompt() + self.output_tokens
    }
}

/// Usage and cost of several requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, utoipa::ToSchema)]
#[schema(as = Spent)]
pub struct Spending {
    /// Number of answered requests.
    pub requests: i64,
    /// Token usage.
    pub usage: Usage,
    /// Cost in micro-dollars; absent when no price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<i64>,
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens - other.input_tokens,
            cache_creation_input_tokens: self.cache_creation_input_tokens
                - other.cache_creation_input_tokens,
            cache_read_input_tokens: self.cache_read_input_tokens - other.cache_read_input_tokens,
            output_tokens: self.output_tokens - other.output_tokens,
            cache_creation_1h_input_tokens: self.cache_creation_1h_input_tokens
                - other.cache_creation_1h_input_tokens,
            thinking_tokens: self.thinking_tokens - other.thinking_tokens,
            web_search_requests: self.web_search_requests - other.web_search_requests,
            web_fetch_requests: self.web_fetch_requests - other.web_fetch_requests,
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.cache_creation_input_tokens += other.cache_creation_input_tokens;
        self.cache_read_input_tokens += other.cache_read_input_tokens;
        self.output_tokens += other.output_tokens;
        self.cache_creation_1h_input_tokens += other.cache_creation_1h_input_tokens;
        self.thinking_tokens += other.thinking_tokens;
        self.web_search_requests += other.web_search_requests;
        self.web_fetch_requests += other.web_fetch_requests;
    }
}
