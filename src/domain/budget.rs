//! Budgets, and the estimate of the most that a request can use.
//!
//! A request is sent only if the budget covers its estimate, so that a budget is never exceeded,
//! however many requests are in progress.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::price::Price;
use super::usage::Usage;

/// Tokens that a request may have in addition to its body: the model provider adds a prompt of
/// its own to requests with tools.
const HIDDEN_PROMPT: i64 = 1000;

/// A spending limit. An unset unit is not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Input and output tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub tokens: Option<i64>,
    /// Micro-dollars, by the operator's prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub cost: Option<i64>,
}

impl Budget {
    /// Returns `true` if no unit is limited.
    pub const fn is_open(&self) -> bool {
        self.tokens.is_none() && self.cost.is_none()
    }
}

/// The owner and the period of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The session, over its whole life.
    Session,
    /// The tenant, per UTC day.
    TenantDay,
    /// The tenant, over all time.
    TenantTotal,
}

/// The unit of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Tokens.
    Tokens,
    /// Micro-dollars.
    Cost,
}

/// The size of an earlier request, as measured by the model provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasuredRequest {
    /// Length of the body in bytes.
    pub bytes: i64,
    /// Tokens of the prompt.
    pub tokens: i64,
}

impl MeasuredRequest {
    /// The measurement that the reply to a request of this length contains.
    pub const fn of(bytes: i64, usage: &Usage) -> Self {
        Self { bytes, tokens: usage.prompt() }
    }
}

/// The most that a request can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Input and output tokens.
    pub tokens: i64,
    /// Cost in micro-dollars; none when no price is known.
    pub cost: Option<i64>,
}

impl Estimate {
    /// Estimates a request with a body of this length. A token has at least one byte; for the part
    /// that repeats an earlier request, the measured number of tokens is used.
    ///
    /// Content that the provider adds itself, such as a page behind a URL, is not in the body and
    /// not in the estimate.
    pub fn new(
        bytes: i64,
        max_tokens: u32,
        price: Option<Price>,
        earlier: Option<MeasuredRequest>,
    ) -> Self {
        let input = match earlier {
            Some(earlier) if earlier.tokens > 0 && earlier.bytes <= bytes => {
                earlier.tokens + (bytes - earlier.bytes)
            }
            Some(_) | None => bytes,
        };
        let (input, output) = (input.saturating_add(HIDDEN_PROMPT), i64::from(max_tokens));
        Self {
            tokens: input.saturating_add(output),
            cost: price.map(|price| price.most(input, output)),
        }
    }
}

impl Estimate {
    /// The estimate of a request that the provider processes twice, as it does for a compaction.
    #[must_use]
    pub fn doubled(self) -> Self {
        let twice = |count: i64| count.saturating_mul(2);
        Self { tokens: twice(self.tokens), cost: self.cost.map(twice) }
    }
}

/// A budget and its current use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetUse {
    /// The owner of the budget.
    pub scope: Scope,
    /// The limits.
    pub budget: Budget,
    /// Tokens spent, or reserved for requests in progress.
    pub tokens: i64,
    /// Micro-dollars spent or reserved.
    pub cost: i64,
}

impl BudgetUse {
    /// Returns the limit that the request would exceed, if any.
    pub fn refuses(&self, estimate: &Estimate) -> Option<Exceeded> {
        let over = |unit, budget: Option<i64>, used: i64, needed: Option<i64>| {
            let budget = budget?;
            let fits = needed.is_some_and(|needed| used.saturating_add(needed) <= budget);
            (!fits).then_some(Exceeded { scope: self.scope, unit, budget, used, needed })
        };
        over(Unit::Tokens, self.budget.tokens, self.tokens, Some(estimate.tokens))
            .or_else(|| over(Unit::Cost, self.budget.cost, self.cost, estimate.cost))
    }
}

/// A budget that does not cover a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// The owner of the budget.
    pub scope: Scope,
    /// The unit that is exceeded.
    pub unit: Unit,
    /// The limit.
    pub budget: i64,
    /// The amount that is spent, or reserved for other requests.
    pub used: i64,
    /// The estimate of the request; none if its model has no price.
    pub needed: Option<i64>,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { budget, used, .. } = self;
        let whose = match self.scope {
            Scope::Session => "the session's budget",
            Scope::TenantDay => "the budget of this day",
            Scope::TenantTotal => "the budget",
        };
        let unit = match self.unit {
            Unit::Tokens => "tokens",
            Unit::Cost => "micro-dollars",
        };
        write!(f, "{whose} is {budget} {unit}, of which {used} are spent or reserved; ")?;
        match self.needed {
            Some(needed) => write!(f, "the next request can use up to {needed}"),
            None => {
                write!(f, "the cost of the next request is unknown: its model has no price")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: Price = Price {
        input: 1_000_000,
        output: 2_000_000,
        cache_write: 1_000_000,
        cache_write_1h: None,
        cache_read: 0,
        web_search: 0,
        long: None,
    };

    #[test]
    fn a_token_has_at_least_one_byte() {
        let expected = Estimate { tokens: 1500, cost: Some(1600) };
        assert_eq!(Estimate::new(400, 100, Some(PRICE), None), expected);
    }

    #[test]
    fn measured_tokens_are_not_estimated_again() {
        let usage = Usage { input_tokens: 60, cache_read_input_tokens: 40, ..Usage::default() };
        let earlier = MeasuredRequest::of(400, &usage);
        assert_eq!(Estimate::new(450, 100, None, Some(earlier)).tokens, 100 + 50 + 1000 + 100);
        // A shorter body makes the measurement useless, and so does a server that does not count.
        assert_eq!(Estimate::new(399, 100, None, Some(earlier)).tokens, 399 + 1000 + 100);
        let silent = MeasuredRequest { tokens: 0, ..earlier };
        assert_eq!(Estimate::new(450, 100, None, Some(silent)).tokens, 450 + 1000 + 100);
    }

    #[test]
    fn a_request_that_just_fits_is_allowed() {
        let budget = Budget { tokens: Some(1000), cost: Some(50) };
        let at = |tokens, cost| BudgetUse { scope: Scope::Session, budget, tokens, cost };
        let estimate = Estimate { tokens: 100, cost: Some(10) };
        assert_eq!(at(900, 40).refuses(&estimate), None);
        let exceeded = |unit, budget, used, needed| {
            Some(Exceeded { scope: Scope::Session, unit, budget, used, needed })
        };
        assert_eq!(at(901, 41).refuses(&estimate), exceeded(Unit::Tokens, 1000, 901, Some(100)));
        assert_eq!(at(900, 41).refuses(&estimate), exceeded(Unit::Cost, 50, 41, Some(10)));
        let unknown = Estimate { cost: None, ..estimate };
        assert_eq!(at(0, 0).refuses(&unknown), exceeded(Unit::Cost, 50, 0, None));
    }

    #[test]
    fn the_error_names_the_exceeded_budget() {
        let mut exceeded = Exceeded {
            scope: Scope::TenantDay,
            unit: Unit::Tokens,
            budget: 1000,
            used: 950,
            needed: Some(100),
        };
        assert_eq!(
            exceeded.to_string(),
            "the budget of this day is 1000 tokens, of which 950 are spent or reserved; the next \
             request can use up to 100"
        );
        exceeded.needed = None;
        assert!(exceeded.to_string().ends_with("its model has no price"));
    }
}
