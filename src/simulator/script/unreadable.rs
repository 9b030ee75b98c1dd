//! Blocks that the model's side cannot read.

use serde::Deserialize;
use serde_json::Value;

use crate::simulator::request::{Ask, At, blocks};

/// A block that is refused, as a broken image is: every request that has one gets an error that
/// names its place.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unreadable {
    /// The block's `type`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Part of its JSON text; absent matches every block of the type.
    #[serde(default)]
    pub contains: String,
    /// What is said of it.
    pub message: String,
}

impl Unreadable {
    /// The message of the error, for a request that has such a block.
    pub(crate) fn refuses(&self, ask: Ask<'_>) -> Option<String> {
        let Self { kind, message: said, .. } = self;
        for (message, sent) in ask.messages().iter().enumerate() {
            for (index, block) in blocks(sent).enumerate() {
                let at = At { message, index };
                if block.json().is_some_and(|block| self.is(block)) {
                    return Some(format!("{at}.{kind}.source: {said}"));
                }
                let parts = block.get("content").and_then(Value::as_array);
                if let Some(part) = parts.and_then(|parts| parts.iter().position(|p| self.is(p))) {
                    return Some(format!("{at}.tool_result.content.{part}.{kind}.source: {said}"));
                }
            }
        }
        None
    }

    fn is(&self, block: &Value) -> bool {
        block.get("type").is_some_and(|kind| *kind == self.kind)
            && block.to_string().contains(&self.contains)
    }
}
