//! The placeholders of scripted texts: `{{user}}`, `{{results}}` and `{{result.N}}`.

use serde_json::Value;

/// What the placeholders of one request stand for.
#[derive(Debug, Default)]
pub(crate) struct Placeholders {
    /// The latest user text.
    pub(crate) user: String,
    /// The texts of the tool results in the last message, trimmed.
    pub(crate) results: Vec<String>,
}

impl Placeholders {
    /// `text` with its placeholders replaced; what is not a placeholder stays as it is.
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

    /// `value` with the placeholders in its strings replaced.
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
                let nth: usize = name.strip_prefix("result.")?.parse().ok()?;
                Some(self.results.get(nth).cloned().unwrap_or_default())
            }
        }
    }
}
