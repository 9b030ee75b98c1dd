//! How much a model may be asked to write in one reply.

use crate::domain::model::built_in;

/// The largest output of the simulator's models, which no table has: they are no real ones.
const MOST_OF_SIMULATORS: u32 = 128_000;

/// The budget for another try of a reply that was cut: twice as much, as far as the model goes.
/// None where it goes no further, or where nobody knows how far.
pub fn larger(model: &str, max_tokens: u32) -> Option<u32> {
    let larger = max_tokens.saturating_mul(2).min(most(model)?);
    (larger > max_tokens).then_some(larger)
}

fn most(model: &str) -> Option<u32> {
    let simulators = || model.starts_with("simulator").then_some(MOST_OF_SIMULATORS);
    built_in(model).max_tokens.or_else(simulators)
}

#[cfg(test)]
mod tests {
    use super::larger;

    #[test]
    fn a_budget_is_doubled_as_far_as_the_model_goes() {
        assert_eq!(larger("claude-sonnet-5-5", 8192), Some(16_384));
        assert_eq!(larger("claude-sonnet-5-5", 100_000), Some(128_000));
        assert_eq!(larger("claude-haiku-4-5-20251001", 50_000), Some(64_000));
        assert_eq!(larger("claude-haiku-4-5", 64_000), None);
        assert_eq!(larger("simulator-2", 100_000), Some(128_000));
    }

    #[test]
    fn a_model_that_nobody_knows_is_not_asked_for_more() {
        for model in ["a-local-model", "claude-2", "claude-next"] {
            assert_eq!(larger(model, 1000), None, "{model}");
        }
    }
}
