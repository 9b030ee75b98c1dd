//! Assembles the events of a stream into a reply in the format of the Messages API, block by block in the
//! order of the items.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::super::blocks;
use super::decode::{DeltaKind, ItemFields, OutputItem, Response, StreamEvent, decode};
use super::reasoning;
use crate::domain::call_syntax::{MAX_WORD, is_word};
use crate::domain::ids::CallId;
use crate::domain::message::Content;
use crate::domain::stop_reason::{ModelStop, Refusal};
use crate::domain::usage::Usage;
use crate::model::error::ModelError;
use crate::model::reply::{PartialReply, Progress, Reply, estimated_tokens};

/// The maximum size of a reply, far above the largest output limit.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// A reply that is being assembled from events.
#[derive(Debug)]
pub(super) struct Assembler {
    /// The body of the request, in which ids of earlier calls occur.
    sent: Bytes,
    model: String,
    /// The items by their index in the output.
    items: BTreeMap<usize, Item>,
    refusal: String,
    usage: Option<Usage>,
    stop: Option<ModelStop>,
    has_begun: bool,
    bytes: usize,
}

/// An item of the output.
#[derive(Debug)]
enum Item {
    Text(String),
    Reasoning {
        text: String,
        part: u64,
        raw: Option<Box<RawValue>>,
    },
    Call {
        id: String,
        name: String,
        arguments: String,
    },
    /// An item of another kind, such as a call of a tool that the server runs.
    Other,
}

impl Item {
    fn text_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Text(text)
            | Self::Reasoning { text, .. }
            | Self::Call { arguments: text, .. } => Some(text),
            Self::Other => None,
        }
    }

    fn characters(&self) -> usize {
        match self {
            Self::Text(text)
            | Self::Reasoning { text, .. }
            | Self::Call { arguments: text, .. } => text.chars().count(),
            Self::Other => 0,
        }
    }
}

impl Assembler {
    /// Creates an assembler for the reply to a request with this body.
    pub(super) fn new(sent: Bytes) -> Self {
        Self {
            sent,
            model: String::new(),
            items: BTreeMap::new(),
            refusal: String::new(),
            usage: None,
            stop: None,
            has_begun: false,
            bytes: 0,
        }
    }

    /// Adds the data of one event.
    pub(super) fn push(&mut self, data: &str) -> Result<Vec<Progress>, ModelError> {
        self.bytes += data.len();
        if self.bytes > MAX_BYTES {
            return Err(ModelError::TooLarge(MAX_BYTES));
        }
        let event = decode(data)?;
        self.has_begun = true;
        match event {
            StreamEvent::Started(response) => {
                self.model = response.model.unwrap_or_default();
                Ok(Vec::new())
            }
            StreamEvent::ItemAdded { index, item } => Ok(self.begin(index, &item.fields)),
            StreamEvent::Delta { index, kind, part, text } => Ok(self.add(index, kind, part, text)),
            StreamEvent::ItemDone { index, item } => Ok(self.complete(index, item)),
            StreamEvent::Ended(response) => self.end(&response),
            StreamEvent::Ignored => Ok(Vec::new()),
        }
    }

    fn begin(&mut self, index: usize, fields: &ItemFields) -> Vec<Progress> {
        if self.items.contains_key(&index) {
            return Vec::new();
        }
        let (item, progress) = match fields.kind.as_str() {
            "message" => (Item::Text(String::new()), Some(Progress::TextStarted { index })),
            "reasoning" => {
                let item = Item::Reasoning { text: String::new(), part: 0, raw: None };
                // Its summary may be empty, so it is shown from its first text on.
                (item, None)
            }
            "function_call" => {
                let id = self.call_id(fields.call_id.as_deref());
                let name = fields.name.clone().unwrap_or_default();
                let started =
                    Progress::ToolUseStarted { index, id: id.clone(), name: name.clone() };
                (Item::Call { id, name, arguments: String::new() }, Some(started))
            }
            _ => (Item::Other, None),
        };
        self.items.insert(index, item);
        progress.into_iter().collect()
    }

    fn add(&mut self, index: usize, kind: DeltaKind, part: u64, text: String) -> Vec<Progress> {
        if text.is_empty() {
            return Vec::new();
        }
        let implied = match kind {
            DeltaKind::Text | DeltaKind::Refusal => "message",
            DeltaKind::Reasoning => "reasoning",
            DeltaKind::Arguments => "",
        };
        let fields = ItemFields { kind: implied.to_owned(), ..ItemFields::default() };
        let mut progress = self.begin(index, &fields);
        if kind == DeltaKind::Refusal {
            self.refusal.push_str(&text);
        }
        let Some(item) = self.items.get_mut(&index) else { return progress };
        let mut added = text;
        if let Item::Reasoning { text, part: last, .. } = item {
            if text.is_empty() {
                progress.push(Progress::ThinkingStarted { index });
            } else if *last != part {
                added.insert_str(0, "\n\n");
            }
            *last = part;
        }
        if let Some(text) = item.text_mut() {
            text.push_str(&added);
            progress.push(Progress::Delta { index, text: added.into() });
        }
        progress
    }

    /// Takes the complete item, which counts where it differs from its pieces. Some servers send it
    /// without any.
    fn complete(&mut self, index: usize, item: OutputItem) -> Vec<Progress> {
        let mut progress = self.begin(index, &item.fields);
        let OutputItem { fields, raw } = item;
        let whole = |parts: Option<Vec<super::decode::Part>>, separator: &str| {
            let parts = parts.unwrap_or_default();
            let texts: Vec<String> =
                parts.into_iter().map(|part| part.text + &part.refusal).collect();
            texts.join(separator)
        };
        let refused = fields.content.iter().flatten().map(|part| part.refusal.as_str());
        let refused: String = refused.collect();
        if self.refusal.is_empty() {
            self.refusal = refused;
        }
        let Some(known) = self.items.get_mut(&index) else { return progress };
        let (text, started) = match known {
            Item::Text(_) => (whole(fields.content, ""), None),
            Item::Reasoning { raw: place, .. } => {
                *place = Some(raw);
                let summary = whole(fields.summary, "\n\n");
                let text = if summary.is_empty() { whole(fields.content, "\n\n") } else { summary };
                (text, Some(Progress::ThinkingStarted { index }))
            }
            Item::Call { name, .. } => {
                if let Some(complete) = fields.name {
                    *name = complete;
                }
                (fields.arguments.unwrap_or_default(), None)
            }
            Item::Other => return progress,
        };
        if let Some(known) = known.text_mut()
            && !text.is_empty()
        {
            if known.is_empty() {
                progress.extend(started);
                progress.push(Progress::Delta { index, text: text.as_str().into() });
            }
            *known = text;
        }
        progress
    }

    fn end(&mut self, response: &Response) -> Result<Vec<Progress>, ModelError> {
        self.usage = response.usage().or(self.usage);
        if let Some(error) = response.failure() {
            return Err(error);
        }
        let mut progress = Vec::new();
        if self.items.is_empty() {
            for (index, item) in response.items()?.into_iter().enumerate() {
                progress.extend(self.complete(index, item));
            }
        }
        if let Some(model) = &response.model {
            self.model.clone_from(model);
        }
        let calls = self.items.values().any(|item| matches!(item, Item::Call { .. }));
        self.stop = Some(match response.incomplete_reason() {
            _ if !self.refusal.is_empty() => ModelStop::Refusal,
            Some("max_output_tokens") => ModelStop::MaxTokens,
            Some("content_filter") => ModelStop::Refusal,
            Some(other) => ModelStop::Other(other.to_owned()),
            None if calls => ModelStop::ToolUse,
            None => ModelStop::EndTurn,
        });
        Ok(progress)
    }

    /// Returns true after the last event.
    pub(super) fn is_ended(&self) -> bool {
        self.stop.is_some()
    }

    /// Returns the reply if its last event was received.
    pub(super) fn finish(&self) -> Result<Reply, ModelError> {
        let stop = self.stop.clone().ok_or(ModelError::Truncated)?;
        let refusal = Some(self.refusal.clone()).filter(|text| !text.is_empty());
        Ok(Reply {
            // Nothing is stored at the server under the id of the response.
            id: String::new(),
            model: self.model.clone(),
            content: self.content()?,
            stop,
            usage: self.usage.unwrap_or_default(),
            refusal: Refusal { category: None, explanation: refusal },
            compaction: None,
            applied_edits: None,
            container: None,
        })
    }

    /// Returns the text that was received; `None` before the first event.
    pub(super) fn partial(&self) -> Option<PartialReply> {
        if !self.has_begun {
            return None;
        }
        let characters = self.items.values().map(Item::characters).sum();
        let mut usage = self.usage.unwrap_or_default();
        usage.output_tokens = usage.output_tokens.max(estimated_tokens(characters));
        let texts = self.items.values().filter_map(|item| match item {
            // A refusal is no part of an answer.
            Item::Text(text) if self.refusal.is_empty() => Some(text.as_str()),
            Item::Text(_) | Item::Reasoning { .. } | Item::Call { .. } | Item::Other => None,
        });
        let text: String = texts.collect();
        let (id, model) = (String::new(), self.model.clone());
        Some(PartialReply { id, model, content: Content::text(&text).ok()?, usage })
    }

    fn content(&self) -> Result<Content, ModelError> {
        let mut all = Vec::new();
        for item in self.items.values() {
            match item {
                Item::Text(text) if !text.is_empty() => all.push(blocks::text(text)?),
                Item::Reasoning { text, raw: Some(raw), .. } => {
                    all.push(blocks::thinking(text, reasoning::signature(raw))?);
                }
                Item::Call { id, name, arguments } => all.push(blocks::call(id, name, arguments)?),
                Item::Text(_) | Item::Reasoning { raw: None, .. } | Item::Other => {}
            }
        }
        Content::from_blocks(all.iter().map(AsRef::as_ref)).map_err(blocks::unreadable)
    }

    /// The server's id if it is valid and unused, else a new one: an id must be unique in the history.
    fn call_id(&self, given: Option<&str>) -> String {
        let sent = std::str::from_utf8(&self.sent).unwrap_or_default();
        let is_used = |id: &str| {
            let is_here = |item: &Item| matches!(item, Item::Call { id: other, .. } if other == id);
            self.items.values().any(is_here) || sent.contains(&format!(r#""call_id":"{id}""#))
        };
        match given.filter(|id| is_word(id, MAX_WORD) && !is_used(id)) {
            Some(id) => id.to_owned(),
            None => CallId::new().to_string(),
        }
    }
}

#[cfg(test)]
mod tests;
