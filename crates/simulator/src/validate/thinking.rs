//! The `thinking` setting.

use serde_json::Value;

use super::{Checked, refuse};
use crate::models::Model;
use crate::request::{Ask, Choice};

const KINDS: [&str; 4] = ["adaptive", "between_tools", "disabled", "enabled"];

/// The smallest budget, in tokens.
const LEAST_BUDGET: u64 = 1024;

/// The shape of the setting, and whether the model has it.
pub(super) fn check(ask: Ask<'_>, model: Model<'_>) -> Checked {
    let Some(setting) = ask.get("thinking") else {
        return Ok(());
    };
    let Some(kind) = ask.thinking() else {
        return refuse("thinking.type: Field required");
    };
    if !KINDS.contains(&kind) {
        return refuse(format!(
            "thinking: Input tag '{kind}' found using 'type' does not match any of the expected \
             tags: 'adaptive', 'between_tools', 'disabled', 'enabled'"
        ));
    }
    if !model.takes_thinking(kind) {
        return refuse(unsupported(kind));
    }
    if kind != "enabled" {
        return Ok(());
    }
    budget(ask, setting)?;
    match ask.choice() {
        Choice::Any | Choice::Tool(_) => {
            refuse("Thinking may not be enabled when tool_choice forces tool use.")
        }
        Choice::Auto | Choice::None => Ok(()),
    }
}

fn unsupported(kind: &str) -> String {
    match kind {
        "adaptive" => "adaptive thinking is not supported on this model".to_owned(),
        "enabled" => "\"thinking.type.enabled\" is not supported for this model. Use \
                      \"thinking.type.adaptive\" and \"output_config.effort\" to control \
                      thinking behavior."
            .to_owned(),
        "disabled" => "\"thinking.type.disabled\" is not supported for this model. Thinking \
                       defaults to adaptive mode when not specified; use \
                       \"output_config.effort\" to control thinking behavior."
            .to_owned(),
        kind => format!("\"thinking.type.{kind}\" is not supported for this model."),
    }
}

fn budget(ask: Ask<'_>, setting: &Value) -> Checked {
    let Some(budget) = setting.get("budget_tokens") else {
        return refuse("thinking.enabled.budget_tokens: Field required");
    };
    let Some(budget) = budget.as_u64().filter(|budget| *budget >= LEAST_BUDGET) else {
        return refuse(
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        );
    };
    let most = ask.get("max_tokens").and_then(Value::as_u64);
    if most.is_some_and(|most| most <= budget) {
        return refuse("`max_tokens` must be greater than `thinking.budget_tokens`.");
    }
    Ok(())
}
