//! What may be spent, and the most that a request may take of it.
//!
//! A request is sent only if what it may take at most is still there, so that a budget is never
//! overshot, however many requests are under way.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::price::Price;
use super::usage::Usage;

/// Tokens that a request may have beyond the bytes of its body: the model's side adds a prompt of
/// its own where there are tools.
const HIDDEN_PROMPT: i64 = 1000;

/// What may be spent in all. What is not set does not bind.
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
    /// Whether it binds nothing.
    pub const fn is_open(&self) -> bool {
        self.tokens.is_none() && self.cost.is_none()
    }
}

/// Whose budget, and for what time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The session's, over its whole life.
    Session,
    /// The tenant's, for a day by UTC.
    TenantDay,
    /// The tenant's, over all time.
    TenantTotal,
}

/// What a budget counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Tokens.
    Tokens,
    /// Micro-dollars.
    Cost,
}

/// How many tokens a body had when the model's side counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// Bytes of the body.
    pub bytes: i64,
    /// Tokens of the prompt.
    pub tokens: i64,
}

impl Measured {
    /// What the answer to a request of so many bytes says of it.
    pub const fn of(bytes: i64, usage: &Usage) -> Self {
        Self { bytes, tokens: usage.prompt() }
    }
}

/// The most that a request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Tokens, in and out.
    pub tokens: i64,
    /// Micro-dollars; none where no price is known.
    pub cost: Option<i64>,
}

impl Estimate {
    /// The most that a request with a body of so many bytes may take. A token is a byte at least;
    /// of the part that an earlier request had as well it is known how many there are.
    ///
    /// What the model's side brings into the prompt by itself, such as a page behind a URL, is not
    /// in the body and not in here.
    pub fn new(
        bytes: i64,
        max_tokens: u32,
        price: Option<Price>,
        earlier: Option<Measured>,
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
    /// The most of a request that is read twice, and answered twice.
    #[must_use]
    pub fn twice(self) -> Self {
        let twice = |count: i64| count.saturating_mul(2);
        Self { tokens: twice(self.tokens), cost: self.cost.map(twice) }
    }
}

/// Where a budget stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Whose it is.
    pub scope: Scope,
    /// What may be spent.
    pub budget: Budget,
    /// Tokens that are spent, or reserved for requests under way.
    pub tokens: i64,
    /// Micro-dollars likewise.
    pub cost: i64,
}

impl Standing {
    /// Why the budget does not allow a request; none if it does.
    pub fn refuses(&self, estimate: &Estimate) -> Option<Exceeded> {
        let over = |unit, budget: Option<i64>, taken: i64, asked: Option<i64>| {
            let budget = budget?;
            let fits = asked.is_some_and(|asked| taken.saturating_add(asked) <= budget);
            (!fits).then_some(Exceeded { scope: self.scope, unit, budget, taken, asked })
        };
        over(Unit::Tokens, self.budget.tokens, self.tokens, Some(estimate.tokens))
            .or_else(|| over(Unit::Cost, self.budget.cost, self.cost, estimate.cost))
    }
}

/// A budget that does not allow a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// Whose budget.
    pub scope: Scope,
    /// Of what.
    pub unit: Unit,
    /// How much it is.
    pub budget: i64,
    /// How much of it is spent, or reserved for other requests.
    pub taken: i64,
    /// What the request may take; none where that cannot be told, for want of a price.
    pub asked: Option<i64>,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { budget, taken, .. } = self;
        let whose = match self.scope {
            Scope::Session => "the session's budget",
            Scope::TenantDay => "the budget of this day",
            Scope::TenantTotal => "the budget",
        };
        let unit = match self.unit {
            Unit::Tokens => "tokens",
            Unit::Cost => "micro-dollars",
        };
        write!(f, "{whose} is {budget} {unit}, of which {taken} are spent or reserved; ")?;
        match self.asked {
            Some(asked) => write!(f, "the next request may take {asked}"),
            None => {
                write!(f, "what the next request may cost is not known: its model has no price")
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
    fn a_token_is_a_byte_at_least() {
        let expected = Estimate { tokens: 1500, cost: Some(1600) };
        assert_eq!(Estimate::new(400, 100, Some(PRICE), None), expected);
    }

    #[test]
    fn what_was_counted_before_is_not_guessed_again() {
        let usage = Usage { input_tokens: 60, cache_read_input_tokens: 40, ..Usage::default() };
        let earlier = Measured::of(400, &usage);
        assert_eq!(Estimate::new(450, 100, None, Some(earlier)).tokens, 100 + 50 + 1000 + 100);
        // A history that was cut says nothing, and neither does a server that does not count.
        assert_eq!(Estimate::new(399, 100, None, Some(earlier)).tokens, 399 + 1000 + 100);
        let silent = Measured { tokens: 0, ..earlier };
        assert_eq!(Estimate::new(450, 100, None, Some(silent)).tokens, 450 + 1000 + 100);
    }

    #[test]
    fn a_request_that_just_fits_is_allowed() {
        let budget = Budget { tokens: Some(1000), cost: Some(50) };
        let at = |tokens, cost| Standing { scope: Scope::Session, budget, tokens, cost };
        let estimate = Estimate { tokens: 100, cost: Some(10) };
        assert_eq!(at(900, 40).refuses(&estimate), None);
        let exceeded = |unit, budget, taken, asked| {
            Some(Exceeded { scope: Scope::Session, unit, budget, taken, asked })
        };
        assert_eq!(at(901, 41).refuses(&estimate), exceeded(Unit::Tokens, 1000, 901, Some(100)));
        assert_eq!(at(900, 41).refuses(&estimate), exceeded(Unit::Cost, 50, 41, Some(10)));
        let unknown = Estimate { cost: None, ..estimate };
        assert_eq!(at(0, 0).refuses(&unknown), exceeded(Unit::Cost, 50, 0, None));
    }

    #[test]
    fn who_is_refused_reads_why() {
        let mut exceeded = Exceeded {
            scope: Scope::TenantDay,
            unit: Unit::Tokens,
            budget: 1000,
            taken: 950,
            asked: Some(100),
        };
        assert_eq!(
            exceeded.to_string(),
            "the budget of this day is 1000 tokens, of which 950 are spent or reserved; the next \
             request may take 100"
        );
        exceeded.asked = None;
        assert!(exceeded.to_string().ends_with("its model has no price"));
    }
}
