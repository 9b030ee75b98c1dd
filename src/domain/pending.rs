//! Calls that wait for somebody, and what somebody may say of them.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::permission::{Awaits, Permission, Rule};

/// A call that waits for somebody.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct PendingCall {
    /// The model's own id of the call.
    pub tool_use_id: String,
    /// The tool's name.
    pub name: String,
    /// The input as the model wrote it.
    #[schema(value_type = Object)]
    pub input: Box<RawValue>,
    /// Who must act.
    pub awaits: Awaits,
    /// When the call gets its default answer.
    #[schema(value_type = String, format = DateTime)]
    pub answer_by: Timestamp,
}

/// The tool whose calls are remembered by what they run, because its name says nothing.
const BASH: &str = "Bash";

/// The rule that remembers for a session that a call was allowed: never more than was shown. For
/// commands that is this one command, for other tools the tool; none for an input that no rule
/// can stand for.
pub fn rule_for(name: &str, input: &RawValue) -> Option<Rule> {
    let input_text = input.get();
    let value: Value = serde_json::from_str(input_text).ok()?;
    if has_hidden(&value) {
        return None;
    }
    let mut rule = Rule {
        tool: name.to_owned(),
        input: std::collections::BTreeMap::new(),
        decision: Permission::Allow,
        reason: None,
    };
    if name == BASH {
        let command = value.get("command").and_then(Value::as_str)?;
        // It would stand for any text.
        if command.contains('*') {
            return None;
        }
        rule.input.insert("command".to_owned(), command.to_owned());
    }
    Some(rule)
}

/// Whether a text has characters in any of its strings or names that a person does not see.
fn has_hidden(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.chars().any(is_hidden),
        Value::Array(items) => items.iter().any(has_hidden),
        Value::Object(members) => {
            members.iter().any(|(name, value)| name.chars().any(is_hidden) || has_hidden(value))
        }
    }
}

/// Whether a character is not seen, or changes how others are seen: controls but for tabs and
/// line ends, spaces that do not look like one or look like the usual one, marks of direction,
/// joiners, fillers, tags, variation selectors.
pub fn is_hidden(c: char) -> bool {
    let is_plain = matches!(c, ' ' | '\t' | '\n');
    !is_plain
        && (c.is_control()
            || c.is_whitespace()
            || matches!(c,
                '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}'
                | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
                | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
                | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'))
}

/// A text of JSON as a person must see it: what would not be seen is written as an escape.
pub fn display(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hidden(c) {
            let _ = write!(shown, "\\u{{{:04x}}}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str, json: &str) -> Option<Value> {
        let input = RawValue::from_string(json.to_owned()).unwrap();
        rule_for(name, &input).map(|rule| serde_json::to_value(rule).unwrap())
    }

    #[test]
    fn a_command_is_remembered_as_it_is_and_another_tool_by_its_name() {
        let expected = serde_json::json!({ "tool": "Bash", "input": { "command": "git status" }, "decision": "allow" });
        assert_eq!(rule("Bash", r#"{"command":"git status","timeout":5}"#), Some(expected));
        let expected = serde_json::json!({ "tool": "write_file", "decision": "allow" });
        assert_eq!(rule("write_file", r#"{"path":"a*b"}"#), Some(expected));
    }

    #[test]
    fn what_no_rule_can_stand_for_is_not_remembered() {
        for json in [
            r#"{"command":"rm *.tmp"}"#,
            r#"{"command":"ls\u202e"}"#,
            r#"{"command":"ls","\u200b":1}"#,
            r#"{"cmd":"ls"}"#,
            r#"{"command":["ls"]}"#,
            r#"{"command":"\ud800"}"#,
        ] {
            assert_eq!(rule("Bash", json), None, "{json}");
        }
    }

    #[test]
    fn hidden_characters_are_shown_as_escapes() {
        assert_eq!(
            display("ls \u{202e}a\u{200b}é\u{7f}\u{a0}👍"),
            "ls \\u{202e}a\\u{200b}é\\u{007f}\\u{00a0}👍"
        );
    }
}
