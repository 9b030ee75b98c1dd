//! System prompts, stored byte for byte.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// A system prompt in the form in which it is sent: a JSON string or an array of text blocks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SystemPrompt(Box<RawValue>);

impl SystemPrompt {
    /// Creates a prompt from the JSON of its blocks.
    pub const fn from_blocks(blocks: Box<RawValue>) -> Self {
        Self(blocks)
    }

    /// Returns the JSON as sent.
    pub fn json(&self) -> &RawValue {
        &self.0
    }

    /// Returns `true` for a string, `false` for blocks.
    pub fn is_text(&self) -> bool {
        self.0.get().starts_with('"')
    }

    /// Returns the prompt shortened to this number of characters; none if it is not longer.
    pub fn shortened(&self, max: usize) -> Option<Self> {
        let mut prompt: Value = serde_json::from_str(self.0.get()).ok()?;
        let mut left = max;
        let is_shorter = match &mut prompt {
            Value::String(text) => shorten(text, &mut left),
            Value::Array(blocks) => {
                let count = blocks.len();
                let texts = blocks.iter_mut().filter_map(|block| block.get_mut("text"));
                let mut is_shorter = false;
                for text in texts {
                    if let Value::String(text) = text {
                        is_shorter |= shorten(text, &mut left);
                    }
                }
                // A block without text says nothing.
                blocks.retain(|block| block.get("text").is_none_or(|text| text != ""));
                is_shorter || blocks.len() < count
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
        };
        is_shorter.then(|| serde_json::value::to_raw_value(&prompt).ok().map(Self)).flatten()
    }

    /// Returns `true` if there is nothing to send.
    pub fn is_empty(&self) -> bool {
        matches!(self.0.get(), r#""""# | "[]")
    }
}

/// Truncates a text to the number of characters that are left, and subtracts its length. Returns `true`
/// if the text was longer.
pub fn shorten(text: &mut String, left: &mut usize) -> bool {
    let end = text.char_indices().nth(*left).map(|(end, _)| end);
    if let Some(end) = end {
        text.truncate(end);
    }
    *left -= text.chars().count();
    end.is_some()
}

impl From<&str> for SystemPrompt {
    fn from(text: &str) -> Self {
        // A string always serializes.
        Self(serde_json::value::to_raw_value(text).unwrap_or_default())
    }
}

impl From<String> for SystemPrompt {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl Default for SystemPrompt {
    fn default() -> Self {
        "".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_keeps_the_bytes_that_were_stored() {
        for stored in [r#""Say \u00e9 and é.""#, r#"[{"type":"text",  "text":"a"}]"#] {
            let prompt: SystemPrompt = serde_json::from_str(stored).unwrap();
            assert_eq!(serde_json::to_string(&prompt).unwrap(), stored);
            assert!(!prompt.is_empty());
        }
    }

    #[test]
    fn a_long_prompt_is_shortened_in_its_own_form() {
        let shortened = |stored: &str| {
            let prompt: SystemPrompt = serde_json::from_str(stored).unwrap();
            prompt.shortened(3).map(|short| short.json().get().to_owned())
        };
        assert_eq!(shortened(r#""abc""#), None);
        assert_eq!(shortened(r#""äöüß""#).as_deref(), Some(r#""äöü""#));
        let blocks = r#"[{"type":"text","text":"ab"},{"type":"text","text":"cd"},{"type":"text","text":"e"}]"#;
        let expected = r#"[{"text":"ab","type":"text"},{"text":"c","type":"text"}]"#;
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(read(&shortened(blocks).unwrap()), read(expected));
        assert_eq!(shortened(r#"[{"type":"text","text":"abc"}]"#), None);
    }

    #[test]
    fn a_prompt_without_text_is_empty() {
        assert!(SystemPrompt::default().is_empty());
        assert!(SystemPrompt::from("").is_empty());
        assert!(!SystemPrompt::from("a\"b").is_empty());
    }
}
