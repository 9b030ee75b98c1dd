//! Assembles the events of a stream into a message.

mod usage;

use bytes::Bytes;
use serde_json::value::{RawValue, to_raw_value};

use super::call_check::{is_call, with_valid_call};
use super::decode::{BlockDelta, StreamEvent, decode};
use crate::domain::container::Container;
use crate::domain::message::Content;
use crate::domain::stop_reason::ModelStop;
use crate::model::error::ModelError;
use crate::model::input::as_input;
use crate::model::raw_object::RawObject;
use crate::model::reply::{PartialReply, Progress, Reply, estimated_tokens};
use usage::{compaction, usage};

/// The maximum size of a reply, far above the largest output limit.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// A message that is being assembled from events.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    /// The body of the request, in which ids of earlier calls occur.
    sent: Bytes,
    message: Option<RawObject>,
    blocks: Vec<OpenBlock>,
    usage: RawObject,
    applied_edits: Option<Box<RawValue>>,
    bytes: usize,
    /// The server has reported the final counts of the usage.
    has_final_usage: bool,
    is_whole: bool,
    /// An event that was no ping has been added.
    has_content: bool,
}

#[derive(Debug)]
struct OpenBlock {
    index: usize,
    object: RawObject,
    text: Option<String>,
    thinking: Option<String>,
    input: String,
    is_call: bool,
    citations: Vec<Box<RawValue>>,
    is_complete: bool,
}

impl Assembler {
    /// Creates an assembler for the reply to a request with this body.
    pub(super) fn new(sent: Bytes) -> Self {
        Self { sent, ..Self::default() }
    }

    /// Returns true if an event that was no ping has been added since the last call.
    pub(super) fn takes_content(&mut self) -> bool {
        std::mem::take(&mut self.has_content)
    }

    /// Adds the data of one event.
    pub(super) fn push(&mut self, data: &str) -> Result<Progress, ModelError> {
        self.bytes += data.len();
        if self.bytes > MAX_BYTES {
            return Err(ModelError::TooLarge(MAX_BYTES));
        }
        let event = decode(data)?;
        self.has_content |= !matches!(event, StreamEvent::Ignored);
        match event {
            StreamEvent::MessageStart(message) => {
                self.usage = message.read("usage").unwrap_or_default();
                self.message = Some(message);
            }
            StreamEvent::BlockStart { index, block } => {
                let block = with_valid_call(block, |id| self.is_used(id))?;
                let block = OpenBlock::new(index, block);
                let progress = block.started();
                self.blocks.push(block);
                return Ok(progress);
            }
            StreamEvent::BlockDelta { index, delta } => {
                if let Some(block) = self.blocks.iter_mut().find(|block| block.index == index) {
                    return Ok(block.push(delta));
                }
                tracing::warn!(index, "delta for a block that was never started");
            }
            StreamEvent::MessageDelta { delta, usage, applied_edits } => {
                self.applied_edits = applied_edits.or(self.applied_edits.take());
                if let Some(message) = &mut self.message {
                    message.merge(delta);
                }
                self.has_final_usage |= usage.get("output_tokens").is_some();
                self.usage.merge(usage);
            }
            StreamEvent::Message(message) => self.set_whole(message)?,
            StreamEvent::MessageStop => self.is_whole = self.message.is_some(),
            StreamEvent::BlockStop { index } => self.complete_block(index),
            StreamEvent::Ignored => {}
        }
        Ok(Progress::Nothing)
    }

    /// Takes a message that arrived as one object.
    fn set_whole(&mut self, message: RawObject) -> Result<(), ModelError> {
        let blocks: Vec<RawObject> = message.read("content").unwrap_or_default();
        for (index, block) in blocks.into_iter().enumerate() {
            let block = with_valid_call(block, |id| self.is_used(id))?;
            self.blocks.push(OpenBlock { is_complete: true, ..OpenBlock::new(index, block) });
        }
        self.usage = message.read("usage").unwrap_or_default();
        let management: Option<RawObject> = message.read("context_management");
        self.applied_edits = management.and_then(|management| management.read("applied_edits"));
        self.message = Some(message);
        (self.has_final_usage, self.is_whole) = (true, true);
        Ok(())
    }

    /// Marks a block as complete: the one at this index, or the last one.
    fn complete_block(&mut self, index: Option<usize>) {
        let mut blocks = self.blocks.iter_mut().rev();
        if let Some(block) = blocks.find(|block| index.is_none_or(|index| block.index == index)) {
            block.is_complete = true;
        }
    }

    /// Returns true after the last event.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns the message, or an error if the last event is missing.
    pub(super) fn finish(&self) -> Result<Reply, ModelError> {
        if !self.is_whole {
            return Err(ModelError::Truncated);
        }
        let message = self.snapshot(|_| true).ok_or(ModelError::Truncated)?;
        let content = content(&message)?;
        let stop: Option<String> = message.read("stop_reason");
        let stop = ModelStop::from(stop.as_deref().unwrap_or_default());
        // The database cannot store a NUL.
        let sequence = message.read("stop_sequence").map(|text: String| text.replace('\0', ""));
        Ok(Reply {
            id: message.read("id").unwrap_or_default(),
            model: message.read("model").unwrap_or_default(),
            content,
            stop: stop.with_sequence(sequence),
            usage: usage(&self.usage),
            refusal: message.read("stop_details").unwrap_or_default(),
            compaction: compaction(&self.usage),
            applied_edits: self.applied_edits.clone().filter(|edits| are_edits(edits)),
            container: message.read("container").as_ref().and_then(container),
        })
    }

    /// Returns true if an earlier call of the history or of this reply has this id.
    fn is_used(&self, id: &str) -> bool {
        let is_here = |block: &OpenBlock| block.object.read::<String>("id").as_deref() == Some(id);
        let sent = std::str::from_utf8(&self.sent).unwrap_or_default();
        // An id needs no escapes, and the quotes of texts are escaped.
        self.blocks.iter().any(is_here) || sent.contains(&format!(r#""{id}""#))
    }

    /// Returns the part of the message that was received; `None` before its first event.
    pub(super) fn partial(&self) -> Option<PartialReply> {
        let message = self.snapshot(|block| block.is_complete || block.text.is_some())?;
        // Content that a complete reply could not have is left out.
        let content = content(&message).or_else(|_| Content::from_blocks([]));
        let mut usage = usage(&self.usage);
        if !self.has_final_usage {
            let characters = self.blocks.iter().map(OpenBlock::characters).sum();
            usage.output_tokens = usage.output_tokens.max(estimated_tokens(characters));
        }
        Some(PartialReply {
            id: message.read("id").unwrap_or_default(),
            model: message.read("model").unwrap_or_default(),
            content: content.ok()?,
            usage,
        })
    }

    /// The message object as received so far, with these of its blocks.
    fn snapshot(&self, is_included: impl Fn(&OpenBlock) -> bool) -> Option<RawObject> {
        let mut message = self.message.clone()?;
        let blocks = self.blocks.iter().filter(|block| is_included(block));
        let blocks: Vec<RawObject> = blocks.map(OpenBlock::snapshot).collect();
        let switched = blocks.iter().rev().find_map(fallback_model);
        message.set("content", raw(&blocks)?);
        message.set("usage", raw(&self.usage)?);
        if let Some(model) = switched {
            message.set("model", model);
        }
        Some(message)
    }
}

/// The blocks of a message.
fn content(message: &RawObject) -> Result<Content, ModelError> {
    let content: Box<RawValue> = message.read("content").ok_or(ModelError::Truncated)?;
    if is_too_deep(content.get()) {
        return Err(ModelError::Malformed("it is nested too deeply".to_owned()));
    }
    Content::parse(String::from(Box::<str>::from(content)))
        .map_err(|error| ModelError::Malformed(error.to_string()))
}

/// Returns true if the JSON is nested more deeply than the store can parse.
fn is_too_deep(json: &str) -> bool {
    const MAX_DEPTH: usize = 1000;
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    json.bytes().any(|byte| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b'[' | b'{' if !is_text => depth += 1,
            b']' | b'}' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > MAX_DEPTH
    })
}

/// Returns true for a non-empty JSON array of applied edits within the size limit.
fn are_edits(edits: &RawValue) -> bool {
    const MAX_EDITS: usize = 64 * 1024;
    edits.get().starts_with('[') && edits.get() != "[]" && edits.get().len() <= MAX_EDITS
}

/// The container that a reply names.
fn container(reported: &RawObject) -> Option<Container> {
    let id = reported.read("id")?;
    Some(Container { id, expires_at: reported.read("expires_at") }).filter(Container::is_valid)
}

/// The fallback model that took over, as named by a block of type `fallback`.
fn fallback_model(block: &RawObject) -> Option<Box<RawValue>> {
    let kind: String = block.read("type")?;
    let to: RawObject = (kind == "fallback").then(|| block.read("to")).flatten()?;
    to.read("model")
}

fn raw<T: serde::Serialize + ?Sized>(value: &T) -> Option<Box<RawValue>> {
    to_raw_value(value).ok()
}

impl OpenBlock {
    fn new(index: usize, object: RawObject) -> Self {
        let kind: String = object.read("type").unwrap_or_default();
        Self {
            index,
            text: (kind == "text").then(|| object.read("text").unwrap_or_default()),
            thinking: (kind == "thinking").then(|| object.read("thinking").unwrap_or_default()),
            input: String::new(),
            is_call: is_call(&kind),
            citations: object.read("citations").unwrap_or_default(),
            is_complete: false,
            object,
        }
    }

    fn started(&self) -> Progress {
        let index = self.index;
        let kind: String = self.object.read("type").unwrap_or_default();
        match kind.as_str() {
            "text" => Progress::TextStarted { index },
            "thinking" => Progress::ThinkingStarted { index },
            "tool_use" => Progress::ToolUseStarted {
                index,
                id: self.object.read("id").unwrap_or_default(),
                name: self.object.read("name").unwrap_or_default(),
            },
            _ => Progress::Nothing,
        }
    }

    fn push(&mut self, delta: BlockDelta<'_>) -> Progress {
        let (buffer, text) = match delta {
            BlockDelta::Text(text) => (self.text.get_or_insert_default(), text),
            BlockDelta::Thinking(text) => (self.thinking.get_or_insert_default(), text),
            BlockDelta::InputJson(text) => (&mut self.input, text),
            BlockDelta::Signature(signature) => {
                self.object.set("signature", signature);
                return Progress::Nothing;
            }
            BlockDelta::Citation(citation) => {
                self.citations.push(citation);
                return Progress::Nothing;
            }
            BlockDelta::Compaction(mut fields) => {
                // The `type` of the delta must not overwrite the `type` of the block.
                if let Some(kind) = self.object.read("type") {
                    fields.set("type", kind);
                }
                self.object.merge(fields);
                return Progress::Nothing;
            }
            BlockDelta::Unknown => return Progress::Nothing,
        };
        buffer.push_str(&text);
        if text.is_empty() {
            return Progress::Nothing;
        }
        Progress::Delta { index: self.index, text: text.as_ref().into() }
    }

    fn snapshot(&self) -> RawObject {
        let mut object = self.object.clone();
        let mut set = |key, value: Option<Box<RawValue>>| {
            if let Some(value) = value {
                object.set(key, value);
            }
        };
        set("text", self.text.as_ref().and_then(raw));
        set("thinking", self.thinking.as_ref().and_then(raw));
        if !self.citations.is_empty() {
            set("citations", raw(&self.citations));
        }
        if self.is_call {
            set("input", self.input());
        }
        object
    }

    /// The number of characters that the model wrote in the block.
    fn characters(&self) -> usize {
        let texts = [self.text.as_deref(), self.thinking.as_deref(), Some(&self.input)];
        texts.into_iter().flatten().map(|text| text.chars().count()).sum()
    }

    /// The input. Without any delta it is the input of the start event, which is `{}`.
    fn input(&self) -> Option<Box<RawValue>> {
        let given: Option<RawObject> = self.object.read("input");
        if self.input.trim().is_empty() && given.is_some() {
            return None;
        }
        as_input(&self.input)
    }
}

#[cfg(test)]
mod tests;
