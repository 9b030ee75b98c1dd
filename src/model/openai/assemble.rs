//! Assembles the chunks of a stream into a reply in the format of the Messages API.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::calls::{Call, Calls};
use super::decode::{Delta, StreamEvent, decode};
use crate::domain::call_syntax::{is_word, shown};
use crate::domain::message::Content;
use crate::domain::stop_reason::{ModelStop, Refusal};
use crate::domain::usage::Usage;
use crate::model::error::ModelError;
use crate::model::input::as_input;
use crate::model::reply::{PartialReply, Progress, Reply, estimated_tokens};

/// The maximum size of a reply, far above the largest output limit.
const MAX_BYTES: usize = 32 * 1024 * 1024;
/// The maximum length of a tool's name in this protocol.
const MAX_NAME: usize = 64;
/// The index of the text block in a reply; the calls follow it.
const TEXT: usize = 0;

/// A reply that is being assembled from chunks.
#[derive(Debug)]
pub(super) struct Assembler {
    model: String,
    text: String,
    calls: Calls,
    refusal: String,
    finish_reason: Option<String>,
    usage: Option<Usage>,
    /// A chunk was received.
    has_begun: bool,
    bytes: usize,
    is_done: bool,
}

impl Assembler {
    /// Creates an assembler for the reply to a request with this body.
    pub(super) fn new(sent: Bytes) -> Self {
        Self {
            model: String::new(),
            text: String::new(),
            calls: Calls::new(sent),
            has_begun: false,
            refusal: String::new(),
            finish_reason: None,
            usage: None,
            bytes: 0,
            is_done: false,
        }
    }

    /// Adds the data of one event.
    pub(super) fn push(&mut self, data: &str) -> Result<Vec<Progress>, ModelError> {
        self.bytes += data.len();
        if self.bytes > MAX_BYTES {
            return Err(ModelError::TooLarge(MAX_BYTES));
        }
        let chunk = match decode(data)? {
            None => return Ok(Vec::new()),
            Some(StreamEvent::Done) => {
                self.is_done = true;
                return Ok(Vec::new());
            }
            Some(StreamEvent::Chunk(chunk)) => chunk,
        };
        self.has_begun = true;
        if let Some(model) = chunk.model.as_ref().filter(|_| self.model.is_empty()) {
            self.model.clone_from(model);
        }
        let (choice, usage) = chunk.choice();
        // Some servers send cumulative counts in every chunk, so the last one is correct.
        self.usage = usage.or(self.usage);
        let Some(choice) = choice else { return Ok(Vec::new()) };
        // Some servers send an empty reason in every chunk but the last.
        if choice.finish_reason.as_ref().is_some_and(|reason| !reason.is_empty()) {
            self.finish_reason = choice.finish_reason;
        }
        Ok(self.add(choice.delta.unwrap_or_default()))
    }

    fn add(&mut self, delta: Delta) -> Vec<Progress> {
        let mut progress = Vec::new();
        self.refusal.push_str(delta.refusal.as_deref().unwrap_or_default());
        let texts = [delta.content, delta.refusal];
        for text in texts.into_iter().flatten().filter(|text| !text.is_empty()) {
            if self.text.is_empty() {
                progress.push(Progress::TextStarted { index: TEXT });
            }
            self.text.push_str(&text);
            progress.push(Progress::Delta { index: TEXT, text: text.into() });
        }
        for piece in delta.tool_calls.into_iter().flatten() {
            progress.extend(self.calls.push(&piece, TEXT + 1));
        }
        progress
    }

    /// Returns true after a chunk with a finish reason.
    pub(super) fn is_ended(&self) -> bool {
        self.finish_reason.is_some()
    }

    /// Returns true after the last event.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Returns the reply if it has a finish reason. Not every server sends `[DONE]`.
    pub(super) fn finish(&self) -> Result<Reply, ModelError> {
        let Some(reason) = &self.finish_reason else { return Err(ModelError::Truncated) };
        Ok(Reply {
            // The ids of this protocol are often not unique.
            id: String::new(),
            stop: self.stop(reason),
            content: self.content()?,
            model: self.model.clone(),
            usage: self.usage.unwrap_or_default(),
            refusal: Refusal {
                category: None,
                explanation: Some(self.refusal.clone()).filter(|text| !text.is_empty()),
            },
            compaction: None,
            applied_edits: None,
        })
    }

    /// Returns the text that was received; `None` before the first chunk. Most servers report the
    /// usage in the last chunk only.
    pub(super) fn partial(&self) -> Option<PartialReply> {
        if !self.has_begun {
            return None;
        }
        let arguments = self.calls.all.iter().map(|call| call.arguments.chars().count());
        let characters = self.text.chars().count() + arguments.sum::<usize>();
        let mut usage = self.usage.unwrap_or_default();
        usage.output_tokens = usage.output_tokens.max(estimated_tokens(characters));
        // A refusal is no part of an answer.
        let text = if self.refusal.is_empty() { self.text.as_str() } else { "" };
        Some(PartialReply {
            id: String::new(),
            model: self.model.clone(),
            content: Content::text(text).ok()?,
            usage,
        })
    }

    /// The stop reason. Many servers send `stop` although the reply has calls.
    fn stop(&self, reason: &str) -> ModelStop {
        match reason {
            _ if !self.refusal.is_empty() => ModelStop::Refusal,
            "content_filter" => ModelStop::Refusal,
            "length" => ModelStop::MaxTokens,
            "stop" | "tool_calls" | "function_call" if self.calls.all.is_empty() => {
                ModelStop::EndTurn
            }
            "stop" | "tool_calls" | "function_call" => ModelStop::ToolUse,
            other => ModelStop::Other(other.to_owned()),
        }
    }

    fn content(&self) -> Result<Content, ModelError> {
        let mut blocks = Vec::new();
        if !self.text.is_empty() {
            blocks.push(raw(&TextBlock { r#type: "text", text: &self.text })?);
        }
        for call in &self.calls.all {
            blocks.push(block(call)?);
        }
        Content::from_blocks(blocks.iter().map(AsRef::as_ref)).map_err(unreadable)
    }
}

#[derive(Serialize)]
struct TextBlock<'a> {
    r#type: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
struct CallBlock<'a> {
    r#type: &'static str,
    id: &'a str,
    name: &'a str,
    input: Option<Box<RawValue>>,
}

fn block(call: &Call) -> Result<Box<RawValue>, ModelError> {
    if call.name.is_empty() {
        return Err(ModelError::Malformed("a tool call has no name".to_owned()));
    }
    if !is_word(&call.name, MAX_NAME) {
        let why = format!("{} is not the name of a tool", shown(&call.name));
        return Err(ModelError::BadCall(why));
    }
    let input = as_input(&call.arguments);
    raw(&CallBlock { r#type: "tool_use", id: &call.id, name: &call.name, input })
}

fn raw<T: Serialize>(block: &T) -> Result<Box<RawValue>, ModelError> {
    to_raw_value(block).map_err(unreadable)
}

fn unreadable(error: impl std::fmt::Display) -> ModelError {
    ModelError::Malformed(error.to_string())
}

#[cfg(test)]
mod tests;
