//! What tokens cost, in whole micro-dollars.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::usage::Usage;

/// Prices by the model's name.
pub type Prices = HashMap<String, Price>;

/// The price of a million tokens of each kind, in micro-dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Input that is neither read from the cache nor written to it.
    pub input: u32,
    /// Output, thinking included.
    pub output: u32,
    /// Input written to the cache.
    pub cache_write: u32,
    /// Input read from the cache.
    pub cache_read: u32,
}

impl Price {
    /// What this usage costs, in micro-dollars, rounded up.
    pub fn cost(&self, usage: &Usage) -> i64 {
        const MILLION: i128 = 1_000_000;
        let parts = [
            (usage.input_tokens, self.input),
            (usage.output_tokens, self.output),
            (usage.cache_creation_input_tokens, self.cache_write),
            (usage.cache_read_input_tokens, self.cache_read),
        ];
        let sum: i128 =
            parts.iter().map(|(tokens, price)| i128::from(*tokens) * i128::from(*price)).sum();
        i64::try_from((sum + MILLION - 1) / MILLION).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_exact_and_rounded_up() {
        let price = Price {
            input: 2_000_000,
            output: 10_000_000,
            cache_write: 2_500_000,
            cache_read: 100_000,
        };
        let usage = |input, output, write, read| Usage {
            input_tokens: input,
            output_tokens: output,
            cache_creation_input_tokens: write,
            cache_read_input_tokens: read,
            ..Usage::default()
        };
        assert_eq!(price.cost(&usage(0, 0, 0, 0)), 0);
        assert_eq!(price.cost(&usage(1000, 100, 10, 0)), 3025);
        assert_eq!(price.cost(&usage(0, 0, 0, 1)), 1);
        assert_eq!(price.cost(&usage(i64::MAX, i64::MAX, 0, 0)), i64::MAX);
    }
}
