//! `context_management`: which edits there are, and what each of them takes.

use serde_json::{Map, Value};

use super::{Checked, Rules, refuse};
use crate::simulator::betas;
use crate::simulator::models::{COMPACT, EDITS, Model};
use crate::simulator::refusal::Refusal;
use crate::simulator::request::Ask;

/// The smallest prompt that is summed up, in tokens.
const LEAST_COMPACTED: u64 = 50_000;

type Fields = Map<String, Value>;

/// The shape of the setting, and whether model and features have its edits.
pub(super) fn check(ask: Ask<'_>, model: Model<'_>, rules: &Rules) -> Checked {
    let setting = match ask.get("context_management") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(setting)) => setting,
        Some(_) => return refuse("context_management: Input should be a valid dictionary"),
    };
    if !model.manages_context() {
        return refuse("context_management is not supported by this model");
    }
    known("context_management", setting, &["edits"])?;
    if setting.get("edits").is_some_and(|edits| !edits.is_array()) {
        return refuse("context_management.edits: Input should be a valid list");
    }
    let mut kinds = Vec::new();
    for (nth, edit) in ask.edits().iter().enumerate() {
        let at = format!("context_management.edits.{nth}");
        let kind = one(&at, edit, rules)?;
        if kinds.contains(&kind) {
            return refuse(format!("{at}: {kind} may be listed only once"));
        }
        if kind == "clear_thinking_20251015" && nth > 0 {
            return refuse(format!("{at}: {kind} must be listed first"));
        }
        kinds.push(kind);
    }
    Ok(())
}

/// Checks one edit and tells its type.
fn one<'a>(at: &str, edit: &'a Value, rules: &Rules) -> Result<&'a str, Refusal> {
    let invalid = |message: String| Err(Refusal::invalid(message));
    let Some(fields) = edit.as_object() else {
        return invalid(format!("{at}: Input should be a valid dictionary"));
    };
    let Some(kind) = fields.get("type") else {
        return invalid(format!("{at}.type: Field required"));
    };
    let offered: Vec<&str> = EDITS.into_iter().filter(|edit| is_offered(edit, rules)).collect();
    let Some(kind) = kind.as_str().filter(|kind| offered.contains(kind)) else {
        let names: Vec<String> = offered.iter().map(|name| format!("'{name}'")).collect();
        return invalid(format!("{at}.type: Input should be {}", names.join(" or ")));
    };
    let at = format!("{at}.{kind}");
    match kind {
        "clear_thinking_20251015" => clear_thinking(&at, fields),
        "clear_tool_uses_20250919" => clear_tool_uses(&at, fields),
        _ => compact(&at, fields),
    }?;
    Ok(kind)
}

fn is_offered(edit: &str, rules: &Rules) -> bool {
    let beta = if edit == COMPACT { betas::AUTOMATIC } else { betas::EDITING };
    rules.betas.any(&[beta])
}

fn clear_thinking(at: &str, fields: &Fields) -> Checked {
    known(at, fields, &["type", "keep"])?;
    match fields.get("keep") {
        Some(Value::String(all)) if all == "all" => Ok(()),
        Some(Value::Object(keep)) if keep.get("type").is_some_and(|kind| kind == "all") => {
            known(&format!("{at}.keep.all"), keep, &["type"])
        }
        keep => amount(&format!("{at}.keep"), keep, &["thinking_turns"], 1),
    }
}

fn clear_tool_uses(at: &str, fields: &Fields) -> Checked {
    let own = ["type", "trigger", "keep", "clear_at_least", "exclude_tools", "clear_tool_inputs"];
    known(at, fields, &own)?;
    let trigger = fields.get("trigger");
    amount(&format!("{at}.trigger"), trigger, &["input_tokens", "tool_uses"], 1)?;
    amount(&format!("{at}.keep"), fields.get("keep"), &["tool_uses"], 0)?;
    let least = fields.get("clear_at_least");
    amount(&format!("{at}.clear_at_least"), least, &["input_tokens"], 0)?;
    match fields.get("exclude_tools") {
        None | Some(Value::Null) => {}
        Some(Value::Array(names)) if names.iter().all(Value::is_string) => {}
        Some(_) => return refuse(format!("{at}.exclude_tools: Input should be a valid list")),
    }
    boolean(at, fields, "clear_tool_inputs")
}

fn compact(at: &str, fields: &Fields) -> Checked {
    known(at, fields, &["type", "trigger", "pause_after_compaction", "instructions"])?;
    let trigger = fields.get("trigger");
    amount(&format!("{at}.trigger"), trigger, &["input_tokens"], LEAST_COMPACTED)?;
    boolean(at, fields, "pause_after_compaction")?;
    match fields.get("instructions") {
        None | Some(Value::Null | Value::String(_)) => Ok(()),
        Some(_) => refuse(format!("{at}.instructions: Input should be a valid string")),
    }
}

/// An object with a `type` and a `value`, if it is there.
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
    known(&at, fields, &["type", "value"])?;
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

fn known(at: &str, fields: &Fields, known: &[&str]) -> Checked {
    match fields.keys().find(|field| !known.contains(&field.as_str())) {
        Some(field) => refuse(format!("{at}.{field}: Extra inputs are not permitted")),
        None => Ok(()),
    }
}
