//! The output budget of a retry after a truncated reply.

use crate::domain::model::built_in;

/// Maximum output of the simulator's models, which are in no table.
const MAX_OF_SIMULATORS: u32 = 128_000;

/// Returns the output budget for a retry of a truncated reply: twice the budget, up to the model's
/// maximum; none if the maximum is reached or unknown.
pub fn larger(model: &str, max_tokens: u32) -> Option<u32> {
    let larger = max_tokens.saturating_mul(2).min(max_output(model)?);
    (larger > max_tokens).then_some(larger)
}

fn max_output(model: &str) -> Option<u32> {
    let simulators = || model.starts_with("simulator").then_some(MAX_OF_SIMULATORS);
    built_in(model).max_tokens.or_else(simulators)
}

#[cfg(test)]
mod tests {
    use super::larger;

    #[test]
    fn a_budget_is_doubled_up_to_the_models_maximum() {
        assert_eq!(larger("claude-sonnet-5-5", 8192), Some(16_384));
        assert_eq!(larger("claude-sonnet-5-5", 100_000), Some(128_000));
        assert_eq!(larger("claude-haiku-4-5-20251001", 50_000), Some(64_000));
        assert_eq!(larger("claude-haiku-4-5", 64_000), None);
        assert_eq!(larger("simulator-2", 100_000), Some(128_000));
    }

    #[test]
    fn an_unknown_model_gets_no_larger_budget() {
        for model in ["a-local-model", "claude-2", "claude-next"] {
            assert_eq!(larger(model, 1000), None, "{model}");
        }
    }
}
