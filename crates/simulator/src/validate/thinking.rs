//! The rules for the `thinking` setting.

use serde_json::Value;

use super::{Checked, refuse};
use crate::models::Model;
use crate::request::{ApiRequest, ContentBlock, LocatedBlock, ToolChoice, Turn, open_loop};

const KINDS: [&str; 4] = ["adaptive", "between_tools", "disabled", "enabled"];

/// Minimum budget in tokens.
const MIN_BUDGET: u64 = 1024;

/// The form of the setting, and the support of the model for it.
pub(super) fn check(request: ApiRequest<'_>, model: Model<'_>) -> Checked {
    let Some(setting) = request.get("thinking") else {
        return Ok(());
    };
    let Some(kind) = request.thinking() else {
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
    if kind == "enabled" {
        budget(request, setting)?;
    }
    forced_choice(request, kind)
}

/// A tool loop is one turn with one setting: thinking is neither enabled nor disabled within it (issues
/// quote both messages).
pub(super) fn history(request: ApiRequest<'_>, turns: &[Turn<'_>]) -> Checked {
    let Some(open) = open_loop(turns) else { return Ok(()) };
    match request.thinking() {
        Some("enabled") => {
            let Some(first) = open.first().and_then(|turn| turn.blocks.first()) else {
                return Ok(());
            };
            if is_thinking(first.block) {
                return Ok(());
            }
            let (at, kind) = (&first.at, first.block.kind());
            refuse(format!(
                "{at}.type: Expected `thinking` or `redacted_thinking`, but found `{kind}`. When \
                 `thinking` is enabled, a final `assistant` message must start with a thinking block \
                 (preceeding the lastmost set of `tool_use` and `tool_result` blocks). We recommend \
                 you include thinking blocks from previous turns. To avoid this requirement, disable \
                 `thinking`."
            ))
        }
        Some("disabled") => match thinking_of(open) {
            Some(found) => refuse(format!(
                "{}: When thinking is disabled, an `assistant` message in the final position cannot \
                 contain `thinking`. To use thinking blocks, enable `thinking` in your request.",
                found.at
            )),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// The first thinking block of these turns.
fn thinking_of<'t, 'a>(turns: &'t [Turn<'a>]) -> Option<&'t LocatedBlock<'a>> {
    let replies = turns.iter().filter(|turn| turn.role == "assistant");
    replies.flat_map(|turn| &turn.blocks).find(|located| is_thinking(located.block))
}

fn is_thinking(block: ContentBlock<'_>) -> bool {
    block.is("thinking") || block.is("redacted_thinking")
}

/// Thinking that the request asks for, adaptive or with a budget, excludes a forced tool choice
/// (documentation of extended thinking, "Tool use": only `auto` and `none`; the message is recorded
/// from the API, also for adaptive thinking of Opus 4.7 and 4.8).
fn forced_choice(request: ApiRequest<'_>, kind: &str) -> Checked {
    match (kind, request.choice()) {
        ("enabled" | "adaptive", ToolChoice::Any | ToolChoice::Tool(_)) => {
            refuse("Thinking may not be enabled when tool_choice forces tool use.")
        }
        _ => Ok(()),
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

fn budget(request: ApiRequest<'_>, setting: &Value) -> Checked {
    let Some(budget) = setting.get("budget_tokens") else {
        return refuse("thinking.enabled.budget_tokens: Field required");
    };
    let Some(budget) = budget.as_u64().filter(|budget| *budget >= MIN_BUDGET) else {
        return refuse(
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        );
    };
    let most = request.get("max_tokens").and_then(Value::as_u64);
    if most.is_some_and(|most| most <= budget) {
        return refuse("`max_tokens` must be greater than `thinking.budget_tokens`.");
    }
    Ok(())
}
