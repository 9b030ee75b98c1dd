//! The placeholders of scripted texts: `{{user}}`, `{{results}}`, `{{result.N}}`, and
//! `{{result.N/a/0}}` for a part of a JSON result.

use serde_json::Value;

/// The values of the placeholders for one request.
#[derive(Debug, Default)]
pub(crate) struct Placeholders {
    /// The latest user text.
    pub(crate) user: String,
    /// The texts of the tool results in the last message, trimmed.
    pub(crate) results: Vec<String>,
}

impl Placeholders {
    /// Replaces the placeholders in `text`. Unknown placeholders stay unchanged.
    pub(crate) fn fill(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            filled.push_str(before);
            let named = after.split_once("}}");
            if let Some((value, tail)) =
                named.and_then(|(name, tail)| Some((self.value(name)?, tail)))
            {
                filled.push_str(&value);
                rest = tail;
            } else {
                filled.push_str("{{");
                rest = after;
            }
        }
        filled.push_str(rest);
        filled
    }

    /// Replaces the placeholders in all strings of `value`.
    pub(crate) fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(key, field)| (key.clone(), self.fill_value(field))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn value(&self, name: &str) -> Option<String> {
        match name.trim() {
            "user" => Some(self.user.clone()),
            "results" => Some(self.results.join("\n\n")),
            name => {
                let name = name.strip_prefix("result.")?;
                let (nth, pointer) = name.split_at(name.find('/').unwrap_or(name.len()));
                let nth: usize = nth.parse().ok()?;
                let result = self.results.get(nth).map(String::as_str).unwrap_or_default();
                Some(part(result, pointer))
            }
        }
    }
}

/// Returns the part of a JSON text that a pointer names (RFC 6901), empty if it does not exist.
/// Without a pointer it returns the text itself, JSON or not.
fn part(text: &str, pointer: &str) -> String {
    if pointer.is_empty() {
        return text.to_owned();
    }
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    match value.pointer(pointer) {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}
