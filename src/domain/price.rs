//! Costs of model requests, in whole micro-dollars.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::usage::Usage;

/// Prices by model name.
pub type Prices = HashMap<String, Price>;

/// The prices of a model, in micro-dollars: per million tokens, and per search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Input tokens that are neither read from the cache nor written to it.
    pub input: u32,
    /// Output tokens, including thinking.
    pub output: u32,
    /// Input tokens written to the cache.
    pub cache_write: u32,
    /// Input tokens written to the cache for an hour; `cache_write` applies when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<u32>,
    /// Input tokens read from the cache.
    pub cache_read: u32,
    /// One web search by the model provider.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub web_search: u32,
    /// The prices of requests with long prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long: Option<LongPrice>,
}

/// The prices of all tokens of a request whose prompt is longer than `above`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LongPrice {
    /// The longest prompt with the standard price, in tokens, including cached tokens.
    pub above: i64,
    /// As in `Price`.
    pub input: u32,
    /// As in `Price`.
    pub output: u32,
    /// As in `Price`.
    pub cache_write: u32,
    /// As in `Price`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<u32>,
    /// As in `Price`.
    pub cache_read: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde takes")]
const fn is_zero(price: &u32) -> bool {
    *price == 0
}

/// The prices that apply to one request.
#[derive(Clone, Copy)]
struct Rates {
    input: u32,
    output: u32,
    cache_write: u32,
    cache_write_1h: u32,
    cache_read: u32,
}

const MILLION: i128 = 1_000_000;

impl Price {
    /// Returns the cost of one request in micro-dollars, rounded up. For several requests, add the
    /// costs, not the usage; otherwise rounding makes the sums differ.
    pub fn cost(&self, usage: &Usage) -> i64 {
        let rates = self.rates(usage.prompt());
        let written = usage.cache_creation_input_tokens - usage.cache_creation_1h_input_tokens;
        let parts = [
            (usage.input_tokens, rates.input),
            (usage.output_tokens, rates.output),
            (written, rates.cache_write),
            (usage.cache_creation_1h_input_tokens, rates.cache_write_1h),
            (usage.cache_read_input_tokens, rates.cache_read),
        ];
        let tokens: i128 =
            parts.iter().map(|(tokens, price)| i128::from(*tokens) * i128::from(*price)).sum();
        let searches = i128::from(usage.web_search_requests) * i128::from(self.web_search);
        rounded_up(tokens + searches * MILLION)
    }

    /// Returns the maximum cost of a request with at most this many tokens, without searches.
    pub fn most(&self, input: i64, output: i64) -> i64 {
        let most = |rates: Rates| {
            let written = rates.cache_write.max(rates.cache_write_1h);
            let dearest = rates.input.max(written).max(rates.cache_read);
            i128::from(input) * i128::from(dearest) + i128::from(output) * i128::from(rates.output)
        };
        // The actual prompt may be shorter than estimated and then has the standard price.
        rounded_up(most(self.rates(0)).max(most(self.rates(input))))
    }

    fn rates(&self, prompt: i64) -> Rates {
        match self.long {
            Some(long) if prompt > long.above => Rates {
                input: long.input,
                output: long.output,
                cache_write: long.cache_write,
                cache_write_1h: long.cache_write_1h.unwrap_or(long.cache_write),
                cache_read: long.cache_read,
            },
            Some(_) | None => Rates {
                input: self.input,
                output: self.output,
                cache_write: self.cache_write,
                cache_write_1h: self.cache_write_1h.unwrap_or(self.cache_write),
                cache_read: self.cache_read,
            },
        }
    }
}

fn rounded_up(millionths: i128) -> i64 {
    i64::try_from((millionths + MILLION - 1) / MILLION).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The prices of a small model whose long prompts cost five times as much.
    const SMALL: Price = Price {
        input: 100_000,
        output: 500_000,
        cache_write: 125_000,
        cache_write_1h: Some(200_000),
        cache_read: 10_000,
        web_search: 10_000,
        long: Some(LongPrice {
            above: 100_000,
            input: 500_000,
            output: 2_500_000,
            cache_write: 625_000,
            cache_write_1h: None,
            cache_read: 50_000,
        }),
    };

    fn usage(input: i64, output: i64, write: i64, read: i64) -> Usage {
        Usage {
            input_tokens: input,
            output_tokens: output,
            cache_creation_input_tokens: write,
            cache_read_input_tokens: read,
            ..Usage::default()
        }
    }

    #[test]
    fn a_cost_is_exact_and_rounded_up() {
        let price = Price {
            input: 2_000_000,
            output: 10_000_000,
            cache_write: 2_500_000,
            cache_read: 100_000,
            ..Price::default()
        };
        assert_eq!(price.cost(&usage(0, 0, 0, 0)), 0);
        assert_eq!(price.cost(&usage(1000, 100, 10, 0)), 3025);
        assert_eq!(price.cost(&usage(0, 0, 0, 1)), 1);
        assert_eq!(price.cost(&usage(i64::MAX, i64::MAX, 0, 0)), i64::MAX);
    }

    #[test]
    fn hourly_cache_writes_and_searches_have_their_own_prices() {
        let hour = Usage { cache_creation_1h_input_tokens: 400, ..usage(0, 0, 1000, 0) };
        assert_eq!(SMALL.cost(&hour), 600 * 125 / 1000 + 400 * 200 / 1000);
        let searches = Usage { web_search_requests: 3, ..usage(10, 0, 0, 0) };
        assert_eq!(SMALL.cost(&searches), 30_001);
        let plain = Price { cache_write_1h: None, ..SMALL };
        assert_eq!(plain.cost(&hour), 125);
    }

    #[test]
    fn a_long_prompt_costs_more_from_its_first_token() {
        assert_eq!(SMALL.cost(&usage(60_000, 1000, 30_000, 10_000)), 6000 + 500 + 3750 + 100);
        assert_eq!(SMALL.cost(&usage(60_001, 1000, 30_000, 10_000)), 30_001 + 2500 + 18_750 + 500);
    }

    #[test]
    fn no_request_costs_more_than_its_maximum() {
        for (input, output) in [(0, 0), (1, 1), (99_999, 10), (100_000, 10), (100_001, 10)] {
            let most = SMALL.most(input, output);
            for prompt in [0, input / 2, input.saturating_sub(1), input] {
                for used in [
                    usage(prompt, output, 0, 0),
                    usage(0, output, prompt, 0),
                    usage(0, output, 0, prompt),
                    Usage { cache_creation_1h_input_tokens: prompt, ..usage(0, output, prompt, 0) },
                ] {
                    assert!(SMALL.cost(&used) <= most, "{used:?}");
                }
            }
        }
        assert_eq!(SMALL.most(1000, 100), 200 + 50);
    }

    #[test]
    fn prices_deserialize_as_they_serialize() {
        let text = r#"{"input":1,"output":2,"cache_write":3,"cache_read":4}"#;
        let price: Price = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&price).unwrap(), text);
        let text = serde_json::to_string(&SMALL).unwrap();
        assert_eq!(serde_json::from_str::<Price>(&text).unwrap(), SMALL);
    }
}
