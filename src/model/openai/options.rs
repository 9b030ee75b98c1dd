//! What a session asks of its model, in the words of this protocol.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::domain::model::Effort;
use crate::domain::system::SystemPrompt;

/// The form of an answer that has to fit a schema.
#[derive(Debug, Serialize)]
pub(super) struct ResponseFormat<'a> {
    r#type: &'static str,
    json_schema: Schema<'a>,
}

#[derive(Debug, Serialize)]
struct Schema<'a> {
    name: &'static str,
    strict: bool,
    schema: &'a RawValue,
}

impl<'a> ResponseFormat<'a> {
    /// The form that this schema asks for.
    pub(super) const fn new(schema: &'a RawValue) -> Self {
        let json_schema = Schema { name: "output", strict: true, schema };
        Self { r#type: "json_schema", json_schema }
    }
}

/// The nearest level that all servers know.
pub(super) const fn reasoning_effort(effort: Effort) -> &'static str {
    match effort {
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High | Effort::Xhigh | Effort::Max => "high",
    }
}

/// The system prompt as one text, a blank line between its blocks.
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
