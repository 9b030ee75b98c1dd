//! System prompts, stored byte for byte.

use serde::{Deserialize, Serialize};
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

    /// Returns `true` if there is nothing to send.
    pub fn is_empty(&self) -> bool {
        matches!(self.0.get(), r#""""# | "[]")
    }
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
    fn a_prompt_without_text_is_empty() {
        assert!(SystemPrompt::default().is_empty());
        assert!(SystemPrompt::from("").is_empty());
        assert!(!SystemPrompt::from("a\"b").is_empty());
    }
}
