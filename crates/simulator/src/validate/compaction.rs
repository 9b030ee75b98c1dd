//! Summaries: the setting that asks for one, and the signed blocks that later requests begin with.

use serde_json::Value;

use super::{Checked, Endpoint, Rules, messages, only, refuse};
use crate::betas;
use crate::models::{COMPACT, Model};
use crate::refusal::Refusal;
use crate::request::{Ask, At, Choice, Located, Turn, blocks};
use crate::signature::summary::Summary;

/// Characters of `compaction.instructions`.
const LONGEST: usize = 16_384;

/// Whether a summary may be asked for here, before anything else is looked at.
pub(super) fn admit(ask: Ask<'_>, rules: &Rules) -> Checked {
    if ignores(ask, rules) {
        return Ok(());
    }
    if !rules.betas.any(&[betas::ON_REQUEST]) {
        return refuse(format!("compaction: requires anthropic-beta: {}", betas::ON_REQUEST));
    }
    if ask.get("messages").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        return Err(Refusal::coded(
            "compaction_nothing_to_summarize",
            "compaction: there are no messages to summarize",
        ));
    }
    Ok(())
}

/// There is no setting, or one that does not matter: nothing is summed up by counting.
fn ignores(ask: Ask<'_>, rules: &Rules) -> bool {
    rules.endpoint == Endpoint::CountTokens || ask.compaction().is_none()
}

/// The shape of the setting, and what it does not go together with.
pub(super) fn setting(ask: Ask<'_>, model: Model<'_>, rules: &Rules) -> Checked {
    let Some(setting) = ask.compaction().filter(|_| !ignores(ask, rules)) else {
        return Ok(());
    };
    if !model.sums_up() {
        return refuse("compaction is not supported by this model");
    }
    shape(setting)?;
    let has = |field: &str| ask.get(field).is_some_and(|value| !value.is_null());
    let config = ask.get("output_config");
    let format = config.and_then(|config| config.get("format"));
    let forced = matches!(ask.choice(), Choice::Any | Choice::Tool(_));
    for (field, is_set) in [
        ("context_management", has("context_management")),
        ("stop_sequences", has("stop_sequences")),
        ("output_config.format", format.is_some_and(|format| !format.is_null())),
        ("tool_choice", forced),
    ] {
        if is_set {
            return refuse(format!("compaction: cannot be combined with {field}"));
        }
    }
    Ok(())
}

fn shape(setting: &Value) -> Checked {
    let Some(fields) = setting.as_object() else {
        return refuse("compaction: Input should be a valid dictionary");
    };
    match fields.get("type").map(Value::as_str) {
        None => return refuse("compaction.type: Field required"),
        Some(Some("summarize")) => {}
        Some(_) => return refuse("compaction.type: Input should be 'summarize'"),
    }
    only("compaction", fields, &["type", "instructions"])?;
    match fields.get("instructions") {
        Some(Value::String(text)) if text.trim().is_empty() => {
            refuse("compaction.instructions: String should contain non-whitespace characters")
        }
        Some(Value::String(text)) if text.chars().count() > LONGEST => refuse(format!(
            "compaction.instructions: String should have at most {LONGEST} characters"
        )),
        None | Some(Value::Null | Value::String(_)) => Ok(()),
        Some(_) => refuse("compaction.instructions: Input should be a valid string"),
    }
}

/// The last turn may be the assistant's, but not one that waits for a tool.
pub(super) fn ending(turns: &[Turn<'_>]) -> Checked {
    let waits = |turn: &Turn<'_>| {
        let calls = turn.blocks.iter().any(|located| located.block.is("tool_use"));
        turn.role == "assistant" && (calls || messages::is_paused(&turn.blocks))
    };
    if turns.last().is_some_and(waits) {
        return Err(Refusal::coded(
            "compaction_incomplete_turn",
            "compaction: the last assistant turn has a tool call without a result",
        ));
    }
    Ok(())
}

/// Summaries: those that the API made on its own belong to the edit, and a signed one stands alone,
/// in front, as it was returned.
pub(super) fn history(ask: Ask<'_>) -> Checked {
    let mut all = Vec::new();
    for (message, sent) in ask.messages().iter().enumerate() {
        let located = blocks(sent).enumerate().filter(|(_, block)| block.is("compaction"));
        all.extend(located.map(|(index, block)| Located { at: At { message, index }, block }));
    }
    let Some(signed) = all.iter().find(|located| located.block.get("signature").is_some()) else {
        return unsigned(ask, &all);
    };
    if all.len() > 1 {
        return refuse("messages: a request may have only one `compaction` block");
    }
    let at = signed.at;
    if (at.message, at.index) != (0, 0) {
        return Err(Refusal::coded(
            "compaction_block_misplaced",
            format!("{at}: a `compaction` block must be the first block of the first message"),
        ));
    }
    if ask.edit(COMPACT).is_some() {
        return refuse(
            "context_management.edits: compact_20260112 cannot be used with a signed `compaction` \
             block",
        );
    }
    as_returned(signed)
}

fn unsigned(ask: Ask<'_>, all: &[Located<'_>]) -> Checked {
    let has_content = |located: &Located<'_>| located.block.str("content").is_some();
    if all.iter().any(has_content) && ask.edit(COMPACT).is_none() {
        return refuse(format!(
            "`compaction` blocks require a `{COMPACT}` strategy in `context_management.edits`."
        ));
    }
    Ok(())
}

fn as_returned(Located { at, block }: &Located<'_>) -> Checked {
    let Some(summary) = Summary::read(block.str("signature").unwrap_or_default()) else {
        return Err(Refusal::coded(
            "compaction_signature_invalid",
            format!("{at}: Invalid `signature` in `compaction` block"),
        ));
    };
    if !block.str("content").is_some_and(|text| summary.is_of(text)) {
        return Err(Refusal::coded(
            "compaction_content_mismatch",
            format!("{at}: the `content` of a `compaction` block must be as it was returned"),
        ));
    }
    Ok(())
}
