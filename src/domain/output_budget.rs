//! How much a model may be asked to write in one reply.

/// The budget for another try of a reply that was cut: twice as much, as far as the model goes.
/// None where it goes no further, or where nobody knows how far.
pub fn larger(model: &str, max_tokens: u32) -> Option<u32> {
    let larger = max_tokens.saturating_mul(2).min(most(model)?);
    (larger > max_tokens).then_some(larger)
}

/// The largest output of a model that is known. Those before 4.6 are known by their names.
fn most(model: &str) -> Option<u32> {
    if model.starts_with("claude-") {
        return Some(if model.contains("-4-5") { 64_000 } else { 128_000 });
    }
    model.starts_with("simulator").then_some(128_000)
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
        assert_eq!(larger("a-local-model", 1000), None);
    }
}
