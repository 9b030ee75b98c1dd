//! The rules for `context_management` and its edits.

use serde_json::{Map, Value};

use super::{Checked, Rules, only, refuse, unexpected};
use crate::betas;
use crate::models::{CLEAR_THINKING, CLEAR_TOOL_USES, COMPACT, EDITS, Model};
use crate::request::ApiRequest;

/// Minimum trigger of an automatic summary in tokens.
const MIN_COMPACTED: u64 = 50_000;

type Fields = Map<String, Value>;

/// The form of the setting, and the support of model and beta features for its edits.
pub(super) fn check(request: ApiRequest<'_>, model: Model<'_>, rules: &Rules) -> Checked {
    let setting = match request.get("context_management") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(setting)) => setting,
        Some(_) => return refuse("context_management: Input should be a valid dictionary"),
    };
    if !model.clears_context() {
        return refuse("context_management is not supported by this model");
    }
    only("context_management", setting, &["edits"])?;
    if setting.get("edits").is_some_and(|edits| !edits.is_array()) {
        return refuse("context_management.edits: Input should be a valid list");
    }
    let mut kinds = Vec::new();
    for (nth, edit) in request.edits().iter().enumerate() {
        let at = format!("context_management.edits.{nth}");
        one(&at, edit, rules)?;
        let kind = edit.get("type").and_then(Value::as_str).unwrap_or_default();
        if kinds.contains(&kind) {
            return refuse(format!("{at}: {kind} may be listed only once"));
        }
        kinds.push(kind);
    }
    if kinds.contains(&COMPACT) && !model.can_compact() {
        return refuse(format!("context_management: `{COMPACT}` is not supported by this model"));
    }
    thinking(request, model, &kinds)
}

/// The edit that clears thinking comes first, and needs thinking.
fn thinking(request: ApiRequest<'_>, model: Model<'_>, kinds: &[&str]) -> Checked {
    match kinds.iter().position(|kind| *kind == CLEAR_THINKING) {
        None => return Ok(()),
        Some(0) => {}
        Some(_) => {
            return refuse(format!(
                "context_management: `{CLEAR_THINKING}` must be the first strategy in \
                 `context_management.edits` when provided"
            ));
        }
    }
    let thinks = request.thinking().map_or(model.thinks_by_default(), |kind| kind != "disabled");
    if thinks {
        return Ok(());
    }
    refuse(format!("`{CLEAR_THINKING}` strategy requires `thinking` to be enabled or adaptive"))
}

fn one(at: &str, edit: &Value, rules: &Rules) -> Checked {
    let Some(fields) = edit.as_object() else {
        return refuse(format!("{at}: Input should be a valid dictionary"));
    };
    let Some(kind) = fields.get("type") else {
        return refuse(format!("{at}.type: Field required"));
    };
    let kind = kind.as_str().unwrap_or_default();
    let offered: Vec<&str> = EDITS.into_iter().filter(|edit| is_offered(edit, rules)).collect();
    if !offered.contains(&kind) {
        let names: Vec<String> = offered.iter().map(|name| format!("'{name}'")).collect();
        return unexpected(at, kind, &names.join(", "));
    }
    let at = format!("{at}.{kind}");
    match kind {
        CLEAR_THINKING => clear_thinking(&at, fields),
        CLEAR_TOOL_USES => clear_tool_uses(&at, fields),
        _ => compact(&at, fields),
    }
}

/// True if the beta features include the edit. The feature for automatic summaries includes all
/// edits.
fn is_offered(edit: &str, rules: &Rules) -> bool {
    rules.betas.any(&[betas::AUTOMATIC]) || (edit != COMPACT && rules.betas.any(&[betas::EDITING]))
}

fn clear_thinking(at: &str, fields: &Fields) -> Checked {
    only(at, fields, &["type", "keep"])?;
    match fields.get("keep") {
        Some(Value::String(all)) if all == "all" => Ok(()),
        Some(Value::Object(keep)) if keep.get("type").is_some_and(|kind| kind == "all") => {
            only(&format!("{at}.keep.all"), keep, &["type"])
        }
        keep => amount(&format!("{at}.keep"), keep, &["thinking_turns"], 1),
    }
}

fn clear_tool_uses(at: &str, fields: &Fields) -> Checked {
    let own = ["type", "trigger", "keep", "clear_at_least", "exclude_tools", "clear_tool_inputs"];
    only(at, fields, &own)?;
    let trigger = fields.get("trigger");
    amount(&format!("{at}.trigger"), trigger, &["input_tokens", "tool_uses"], 1)?;
    amount(&format!("{at}.keep"), fields.get("keep"), &["tool_uses"], 0)?;
    let least = fields.get("clear_at_least");
    amount(&format!("{at}.clear_at_least"), least, &["input_tokens"], 0)?;
    if fields.get("exclude_tools").is_some_and(|names| !names.is_null() && !is_names(names)) {
        return refuse(format!("{at}.exclude_tools: Input should be a valid list"));
    }
    match fields.get("clear_tool_inputs") {
        Some(names) if is_names(names) => Ok(()),
        _ => boolean(at, fields, "clear_tool_inputs"),
    }
}

fn is_names(value: &Value) -> bool {
    value.as_array().is_some_and(|names| names.iter().all(Value::is_string))
}

fn compact(at: &str, fields: &Fields) -> Checked {
    only(at, fields, &["type", "trigger", "pause_after_compaction", "instructions"])?;
    let trigger = fields.get("trigger");
    amount(&format!("{at}.trigger"), trigger, &["input_tokens"], 0)?;
    let value = trigger.and_then(|trigger| trigger.get("value")).and_then(Value::as_u64);
    if value.is_some_and(|value| value < MIN_COMPACTED) {
        return refuse(format!("{at}: trigger.value must be at least {MIN_COMPACTED}"));
    }
    boolean(at, fields, "pause_after_compaction")?;
    match fields.get("instructions") {
        None | Some(Value::Null | Value::String(_)) => Ok(()),
        Some(_) => refuse(format!("{at}.instructions: Input should be a valid string")),
    }
}

/// An optional object with a `type` and a `value`.
fn amount(at: &str, amount: Option<&Value>, kinds: &[&str], least: u64) -> Checked {
    let fields = match amount {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(fields)) => fields,
        Some(_) => return refuse(format!("{at}: Input should be a valid dictionary")),
    };
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    if !kinds.contains(&kind) {
        let names: Vec<String> = kinds.iter().map(|name| format!("'{name}'")).collect();
        return refuse(format!("{at}.type: Input should be {}", names.join(" or ")));
    }
    let at = format!("{at}.{kind}");
    only(&at, fields, &["type", "value"])?;
    match fields.get("value").map(Value::as_u64) {
        None => refuse(format!("{at}.value: Field required")),
        Some(None) => refuse(format!("{at}.value: Input should be a valid integer")),
        Some(Some(value)) if value < least => {
            refuse(format!("{at}.value: Input should be greater than or equal to {least}"))
        }
        Some(Some(_)) => Ok(()),
    }
}

fn boolean(at: &str, fields: &Fields, field: &str) -> Checked {
    match fields.get(field) {
        None | Some(Value::Null | Value::Bool(_)) => Ok(()),
        Some(_) => refuse(format!("{at}.{field}: Input should be a valid boolean")),
    }
}
