//! What models accept, as far as a request must know before it is sent.

/// Whether a model refuses a forced tool choice (`any`, `tool`) outright.
///
/// A name that is not known is let through: the set of models is open, and the model's own
/// refusal is clear.
pub fn refuses_forced_tool_choice(model: &str) -> bool {
    const REFUSING: [&str; 8] = [
        "claude-fable-5-1",
        "claude-fable-5-2",
        "claude-mythos-5-1",
        "claude-mythos-5-2",
        "claude-mythos-preview",
        "claude-opus-5-5",
        "claude-sonnet-5-5",
        "simulator-strict",
    ];
    REFUSING.iter().any(|name| model.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::refuses_forced_tool_choice;

    #[test]
    fn the_newest_models_refuse_a_forced_tool() {
        assert!(refuses_forced_tool_choice("claude-sonnet-5-5"));
        assert!(!refuses_forced_tool_choice("claude-sonnet-4-6"));
        assert!(!refuses_forced_tool_choice("a-local-model"));
    }
}
