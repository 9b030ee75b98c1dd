//! Blocks that the model's side cannot read.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::refusal::Refusal;
use crate::request::{Ask, At, Located};

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
    /// Details of the error. With them it does not name a place in its message, but all places in
    /// the `paths` of the details.
    #[serde(default)]
    pub details: Option<Map<String, Value>>,
}

/// A block in a message, or a part of the result of a tool there.
struct Found {
    at: At,
    part: Option<usize>,
}

impl Unreadable {
    /// The error, for a request that has such a block.
    pub(crate) fn refuses(&self, ask: Ask<'_>) -> Option<Refusal> {
        let found = self.find(ask);
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

    fn find(&self, ask: Ask<'_>) -> Vec<Found> {
        let mut found = Vec::new();
        for (_, Located { at, block }) in ask.sent() {
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
        block.get("type").is_some_and(|kind| *kind == self.kind) && self.is_said_of(block)
    }

    /// Whether a block of its type, in any protocol, is meant.
    pub(crate) fn is_said_of(&self, block: &Value) -> bool {
        block.to_string().contains(&self.contains)
    }
}

impl Found {
    /// Where it is; a part lies in something that the server may name.
    fn path(&self, holder: &str) -> String {
        let Self { at, part } = self;
        part.map_or(at.to_string(), |part| format!("{at}{holder}.content.{part}"))
    }
}
