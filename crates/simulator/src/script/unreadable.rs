//! Blocks that the API cannot read.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::refusal::Refusal;
use crate::request::{ApiRequest, BlockPath, LocatedBlock};

/// A block that the simulator refuses, such as a broken image: every request with such a block gets
/// an error with its position.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unreadable {
    /// The `type` of the block.
    #[serde(rename = "type")]
    pub kind: String,
    /// A substring of its JSON text; absent matches every block of the type.
    #[serde(default)]
    pub contains: String,
    /// The error message.
    pub message: String,
    /// Details of the error. With them the message names no position; the `paths` of the details
    /// list all positions.
    #[serde(default)]
    pub details: Option<Map<String, Value>>,
}

/// A block in a message, or a part of a tool result in it.
struct Found {
    at: BlockPath,
    part: Option<usize>,
}

impl Unreadable {
    /// Returns the error for a request with such a block.
    pub(crate) fn refuses(&self, request: ApiRequest<'_>) -> Option<Refusal> {
        let found = self.find(request);
        let first = found.first()?;
        let Some(details) = &self.details else {
            let Self { kind, message, .. } = self;
            let path = first.path(".tool_result");
            return Some(Refusal::invalid(format!("{path}.{kind}.source: {message}")));
        };
        let mut details = details.clone();
        details.insert("paths".to_owned(), found.iter().map(|found| found.path("")).collect());
        let refusal = Refusal::invalid(self.message.clone());
        Some(Refusal { details: Some(details.into()), ..refusal })
    }

    fn find(&self, request: ApiRequest<'_>) -> Vec<Found> {
        let mut found = Vec::new();
        for (_, LocatedBlock { at, block }) in request.sent() {
            if block.json().is_some_and(|block| self.is(block)) {
                found.push(Found { at, part: None });
            }
            let parts = block.get("content").and_then(Value::as_array);
            let parts = parts.into_iter().flatten().enumerate();
            let parts = parts.filter(|(_, part)| self.is(part));
            found.extend(parts.map(|(part, _)| Found { at, part: Some(part) }));
        }
        found
    }

    fn is(&self, block: &Value) -> bool {
        block.get("type").is_some_and(|kind| *kind == self.kind) && self.contains_text(block)
    }

    /// True if a block, in either protocol, contains the substring.
    pub(crate) fn contains_text(&self, block: &Value) -> bool {
        block.to_string().contains(&self.contains)
    }
}

impl Found {
    /// The position of the block. The path of a part includes `holder` if the API names it.
    fn path(&self, holder: &str) -> String {
        let Self { at, part } = self;
        part.map_or(at.to_string(), |part| format!("{at}{holder}.content.{part}"))
    }
}
