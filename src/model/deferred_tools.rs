//! Deferred tools in requests.
//!
//! A result of `ToolSearch` is stored as references to the tools that it has found, so the history is
//! the same for all models. A server with tool search gets the references and all definitions, and
//! inserts the definitions itself; its prompt cache does not contain deferred definitions, so a found
//! tool changes no prefix. For other servers the references become texts, and the definitions of the
//! found tools are appended to the other tools, in the order in which they were found. All is derived
//! from the messages of the request, so every worker builds the same request.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use crate::domain::deferred_tools::{DeferredDefinition, SplitDefinitions};
use crate::domain::session::Settings;

/// The type of a reference, as it occurs in every text of messages with one. Quotes within strings are
/// escaped, so almost no other text contains it.
const MARKER: &str = r#""tool_reference""#;
/// The beginning of a reference as the service writes it, up to the name of the tool.
const REFERENCE: &str = r#"{"type":"tool_reference","tool_name":""#;

/// The deferred tools of the requests of a run.
#[derive(Debug, Clone)]
pub(super) struct DeferredTools {
    by_reference: bool,
    definitions: Arc<[DeferredDefinition]>,
}

/// The deferred tools in the common beginning of requests.
#[derive(Debug, Clone)]
pub(super) struct DeferredInHead {
    tools: DeferredTools,
    /// The number of bytes before the end of the tools.
    end_of_tools: usize,
}

impl DeferredInHead {
    /// `up_to_tools` is the serialized beginning as an object whose last member are the tools.
    pub(super) fn new(tools: DeferredTools, up_to_tools: &str) -> Self {
        Self { tools, end_of_tools: up_to_tools.len() - "]}".len() }
    }

    /// The deferred tools.
    pub(super) const fn tools(&self) -> &DeferredTools {
        &self.tools
    }

    /// The beginning of a request with these messages, and the messages as they are sent. `write`
    /// appends a definition in the form of the protocol.
    pub(super) fn with_found<'m>(
        &self,
        head: &[u8],
        messages: &'m str,
        write: impl Fn(&mut Vec<u8>, &RawValue),
    ) -> (Vec<u8>, Cow<'m, str>) {
        let (before, after) = head.split_at(self.end_of_tools);
        let mut text = before.to_vec();
        for tool in self.tools.found(messages) {
            text.push(b',');
            write(&mut text, &tool.json);
        }
        text.extend_from_slice(after);
        (text, self.tools.sent(messages))
    }
}

/// A result with references.
#[derive(Deserialize)]
struct ResultBlock<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(default)]
    content: Value,
}

#[derive(Deserialize)]
struct Sent<'a> {
    #[serde(borrow)]
    role: &'a RawValue,
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
}

impl DeferredTools {
    /// Returns the deferred tools of a session, if it has any, and the definitions that every request
    /// shows to the model.
    pub(super) fn of(settings: &Settings) -> serde_json::Result<Option<(Self, Box<RawValue>)>> {
        let Some(deferred) = &settings.deferred_tools else { return Ok(None) };
        let SplitDefinitions { loaded, deferred: definitions } = settings.split_definitions()?;
        let loaded = to_raw_value(&loaded)?;
        let (by_reference, definitions) = (deferred.by_reference, definitions.into());
        Ok(Some((Self { by_reference, definitions }, loaded)))
    }

    /// The same for a server that does not expand references.
    pub(super) fn without_references(self) -> Self {
        Self { by_reference: false, ..self }
    }

    /// True if the server expands references.
    pub(super) const fn are_by_reference(&self) -> bool {
        self.by_reference
    }

    /// All definitions, marked as deferred, in a JSON array.
    pub(super) fn marked(&self) -> serde_json::Result<Box<RawValue>> {
        let marked = self.definitions.iter().map(|tool| {
            let json = tool.json.get();
            let (before, after) = json.split_at(json.rfind('}').unwrap_or(json.len()));
            RawValue::from_string([before, r#","defer_loading":true"#, after].concat())
        });
        to_raw_value(&marked.collect::<Result<Vec<_>, _>>()?)
    }

    /// The tools that these messages have found and whose definitions the request contains in addition,
    /// in the order in which they were found.
    pub(super) fn found(&self, messages: &str) -> Vec<&DeferredDefinition> {
        let mut found: Vec<&DeferredDefinition> = Vec::new();
        if self.sends_unchanged(messages) {
            return found;
        }
        let known = self.by_name();
        for message in parsed(&format!("[{messages}]")) {
            for name in message.content.into_iter().flat_map(references) {
                if let Some(tool) = known.get(name.as_str())
                    && found.iter().all(|earlier| earlier.name != name)
                {
                    found.push(tool);
                }
            }
        }
        found
    }

    /// The messages as they are sent: unchanged, or with texts in place of the references.
    pub(super) fn sent<'m>(&self, messages: &'m str) -> Cow<'m, str> {
        if self.sends_unchanged(messages) {
            return messages.into();
        }
        let known = self.by_name();
        let array = format!("[{messages}]");
        let mut text = String::with_capacity(array.len());
        for Sent { role, content } in parsed(&array) {
            let separator = if text.is_empty() { "" } else { "," };
            let _ = write!(text, r#"{separator}{{"role":{role},"content":["#);
            for (index, block) in content.into_iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                text.push_str(with_texts(block, &known).get());
            }
            text.push_str("]}");
        }
        text.into()
    }

    /// True if these messages are sent as they are, and have found no tool.
    pub(super) fn sends_unchanged(&self, messages: &str) -> bool {
        self.by_reference || !has_reference(messages)
    }

    /// The number of bytes of a body that the model does not read: deferred definitions, less those that
    /// its server inserts for references.
    pub(super) fn unread_bytes(&self, messages: &str) -> i64 {
        if !self.by_reference {
            return 0;
        }
        let length = |tool: &DeferredDefinition| i64::try_from(tool.json.get().len()).unwrap_or(0);
        let all: i64 = self.definitions.iter().map(length).sum();
        if !has_reference(messages) {
            return all;
        }
        let known = self.by_name();
        let inserted = memmem::find_iter(messages.as_bytes(), REFERENCE).filter_map(|at| {
            let name = messages.get(at + REFERENCE.len()..)?.split('"').next()?;
            known.get(name).map(|tool| length(tool))
        });
        all - inserted.sum::<i64>()
    }

    /// The number of bytes that a body with these messages has in addition to its head and the messages:
    /// found definitions, and texts in place of references.
    pub(super) fn added_bytes(&self, messages: &str) -> i64 {
        let definitions = self.found(messages).into_iter().map(|tool| tool.json.get().len());
        let texts = self.sent(messages).len().saturating_sub(messages.len());
        i64::try_from(definitions.sum::<usize>() + texts).unwrap_or(i64::MAX)
    }

    fn by_name(&self) -> HashMap<&str, &DeferredDefinition> {
        self.definitions.iter().map(|tool| (tool.name.as_str(), tool)).collect()
    }
}

fn has_reference(messages: &str) -> bool {
    memmem::find(messages.as_bytes(), MARKER.as_bytes()).is_some()
}

/// Messages of an array that a transcript has written.
fn parsed(array: &str) -> Vec<Sent<'_>> {
    serde_json::from_str(array).unwrap_or_else(|error| {
        tracing::error!(%error, "stored history not readable");
        Vec::new()
    })
}

/// The names of the tools to which the block of a message refers, if it is a result.
fn references(block: &RawValue) -> Vec<String> {
    if !has_reference(block.get()) {
        return Vec::new();
    }
    let Ok(ResultBlock { r#type, content }) = serde_json::from_str(block.get()) else {
        return Vec::new();
    };
    let parts = content.as_array().filter(|_| r#type == "tool_result");
    parts.into_iter().flatten().filter_map(reference).map(str::to_owned).collect()
}

/// The name of the tool to which a part of a result refers.
fn reference(part: &Value) -> Option<&str> {
    let is_reference = part.get("type")?.as_str()? == "tool_reference";
    part.get("tool_name")?.as_str().filter(|_| is_reference)
}

/// A block with texts in place of its references.
fn with_texts<'a>(
    block: &'a RawValue,
    known: &HashMap<&str, &DeferredDefinition>,
) -> Cow<'a, RawValue> {
    if references(block).is_empty() {
        return Cow::Borrowed(block);
    }
    let Ok(mut members) = serde_json::from_str::<Map<String, Value>>(block.get()) else {
        return Cow::Borrowed(block);
    };
    if let Some(Value::Array(parts)) = members.get_mut("content") {
        for part in parts {
            if let Some(name) = reference(part) {
                let text = text_of(name, known.get(name).copied());
                *part = json!({ "type": "text", "text": text });
            }
        }
    }
    to_raw_value(&members).map_or(Cow::Borrowed(block), Cow::Owned)
}

/// The definition of a tool as a text for the model.
fn text_of(name: &str, definition: Option<&DeferredDefinition>) -> String {
    #[derive(Deserialize)]
    struct Definition<'a> {
        #[serde(default)]
        description: String,
        #[serde(borrow)]
        input_schema: &'a RawValue,
    }
    let read = definition.and_then(|definition| serde_json::from_str(definition.json.get()).ok());
    match read {
        Some(Definition { description, input_schema }) => {
            format!("{name}: {description}\nInput schema: {input_schema}")
        }
        None => format!("{name}: not available any more"),
    }
}

#[cfg(test)]
mod tests;
