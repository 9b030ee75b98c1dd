//! Summaries: the setting that asks for one, and the signed blocks at the beginning of later
//! requests.

use serde_json::Value;

use super::{Checked, Endpoint, Rules, messages, only, refuse};
use crate::betas;
use crate::models::{COMPACT, Model};
use crate::refusal::Refusal;
use crate::request::{ApiRequest, BlockPath, LocatedBlock, ToolChoice, Turn, blocks};
use crate::signature::summary::Summary;

/// Maximum length of `compaction.instructions` in characters.
const LONGEST: usize = 16_384;

/// Checks that the request may request for a summary, before any other rule.
pub(super) fn admit(request: ApiRequest<'_>, rules: &Rules) -> Checked {
    if ignores(request, rules) {
        return Ok(());
    }
    if !rules.betas.any(&[betas::ON_REQUEST]) {
        return refuse(format!("compaction: requires anthropic-beta: {}", betas::ON_REQUEST));
    }
    if request.get("messages").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        return Err(Refusal::coded(
            "compaction_nothing_to_summarize",
            "compaction: there are no messages to summarize",
        ));
    }
    Ok(())
}

/// True without the setting, and for counts, which ignore it.
fn ignores(request: ApiRequest<'_>, rules: &Rules) -> bool {
    rules.endpoint == Endpoint::CountTokens || request.compaction().is_none()
}

/// The form of the setting, and the settings that exclude it.
pub(super) fn setting(request: ApiRequest<'_>, model: Model<'_>, rules: &Rules) -> Checked {
    let Some(setting) = request.compaction().filter(|_| !ignores(request, rules)) else {
        return Ok(());
    };
    if !model.can_compact() {
        return refuse("compaction is not supported by this model");
    }
    shape(setting)?;
    let has = |field: &str| request.get(field).is_some_and(|value| !value.is_null());
    let config = request.get("output_config");
    let format = config.and_then(|config| config.get("format"));
    let forced = matches!(request.choice(), ToolChoice::Any | ToolChoice::Tool(_));
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

/// The last turn can be the assistant's, but without an open tool call.
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

/// Automatic summaries need the edit. A signed summary is alone in the first message, exactly as
/// returned.
pub(super) fn history(request: ApiRequest<'_>, model: Model<'_>) -> Checked {
    let mut all = Vec::new();
    for (message, sent) in request.messages().iter().enumerate() {
        let located = blocks(sent).enumerate().filter(|(_, block)| block.is("compaction"));
        all.extend(
            located.map(|(index, block)| LocatedBlock { at: BlockPath { message, index }, block }),
        );
    }
    if !model.can_compact()
        && let Some(LocatedBlock { at, .. }) = all.first()
    {
        return refuse(format!("{at}: `compaction` blocks are not supported by this model"));
    }
    let Some(signed) = all.iter().find(|located| located.block.get("signature").is_some()) else {
        return unsigned(request, &all);
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
    if request.edit(COMPACT).is_some() {
        return refuse(
            "context_management.edits: compact_20260112 cannot be used with a signed `compaction` \
             block",
        );
    }
    as_returned(signed)
}

fn unsigned(request: ApiRequest<'_>, all: &[LocatedBlock<'_>]) -> Checked {
    let has_content = |located: &LocatedBlock<'_>| located.block.str("content").is_some();
    if all.iter().any(has_content) && request.edit(COMPACT).is_none() {
        return refuse(format!(
            "`compaction` blocks require a `{COMPACT}` strategy in `context_management.edits`."
        ));
    }
    Ok(())
}

fn as_returned(LocatedBlock { at, block }: &LocatedBlock<'_>) -> Checked {
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
