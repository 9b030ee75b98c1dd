//! Translates a session's model options into this protocol.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::domain::model::Effort;
use crate::domain::system::SystemPrompt;

/// The `response_format` of a request.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ResponseFormat<'a> {
    /// The answer must match a JSON schema.
    JsonSchema { json_schema: NamedSchema<'a> },
}

#[derive(Debug, Serialize)]
pub(super) struct NamedSchema<'a> {
    name: &'static str,
    strict: bool,
    schema: &'a RawValue,
}

impl<'a> ResponseFormat<'a> {
    /// The format for this schema.
    pub(super) const fn of(schema: &'a RawValue) -> Self {
        Self::JsonSchema { json_schema: NamedSchema { name: "output", strict: true, schema } }
    }
}

/// The nearest effort level that all servers support.
pub(super) const fn reasoning_effort(effort: Effort) -> &'static str {
    match effort {
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High | Effort::Xhigh | Effort::Max => "high",
    }
}

/// The system prompt as one text, with a blank line between its blocks.
pub(super) fn system_text(system: &SystemPrompt) -> Result<String, serde_json::Error> {
    #[derive(Deserialize)]
    struct Block {
        text: String,
    }
    let json = system.json().get();
    if system.is_text() {
        return serde_json::from_str(json);
    }
    let blocks: Vec<Block> = serde_json::from_str(json)?;
    let texts: Vec<String> = blocks.into_iter().map(|block| block.text).collect();
    Ok(texts.join("\n\n"))
}
