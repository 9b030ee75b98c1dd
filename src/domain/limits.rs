//! Limits of runs.

use serde::{Deserialize, Serialize};

/// Limits of a run. A limit that is not set does not apply.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Maximum number of model requests that tool calls may follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1000)]
    pub rounds: Option<u32>,
    /// Maximum number of input and output tokens of all requests together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub tokens: Option<i64>,
    /// Maximum cost of all requests together, in micro-dollars, by the operator's prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub cost: Option<i64>,
    /// Maximum time since the run first started, in seconds. A request or a call in progress is then
    /// ended, and the model is asked once more for its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub seconds: Option<u32>,
}

impl Limits {
    /// Maximum rounds of a run that sets no limit.
    pub const DEFAULT_ROUNDS: u32 = 10;
    /// The highest number of rounds that a request can set.
    pub const MAX_ROUNDS: u32 = 1000;

    /// Returns `true` if no limit is set.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// Returns these limits, with the limits of `other` where these are not set.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self {
            rounds: self.rounds.or(other.rounds),
            tokens: self.tokens.or(other.tokens),
            cost: self.cost.or(other.cost),
            seconds: self.seconds.or(other.seconds),
        }
    }
}

/// The limit that ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// Rounds.
    Rounds,
    /// Tokens.
    Tokens,
    /// Cost.
    Cost,
    /// Seconds.
    Seconds,
}
