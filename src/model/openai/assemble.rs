//! Assembles the chunks of a stream into a reply in the format of the Messages API.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::blocks;
use super::calls::Calls;
use super::decode::{ContentPart, Delta, DeltaContent, StreamEvent, decode};
use super::provider_state::{ProviderState, ThinkingPlace};
use super::think_tags::{Piece, ThinkTags};
use crate::domain::message::Content;
use crate::domain::stop_reason::{ModelStop, Refusal};
use crate::domain::usage::Usage;
use crate::model::error::ModelError;
use crate::model::raw_object::RawObject;
use crate::model::reply::{PartialReply, Progress, Reply, estimated_tokens};

/// The maximum size of a reply, far above the largest output limit.
const MAX_BYTES: usize = 32 * 1024 * 1024;
/// The index of the thinking in the progress of a reply.
const THINKING: usize = 0;
/// The index of the text; the calls follow it.
const TEXT: usize = 1;

/// The finish reason of a reply that is complete.
const STOP: &str = "stop";

/// A reply that is being assembled from chunks.
#[derive(Debug)]
pub(super) struct Assembler {
    model: String,
    thinking: String,
    thinking_place: Option<ThinkingPlace>,
    tags: ThinkTags,
    text: String,
    calls: Calls,
    /// Other members of the message, which the server gets back.
    members: RawObject,
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
            thinking: String::new(),
            thinking_place: None,
            tags: ThinkTags::default(),
            text: String::new(),
            calls: Calls::new(sent),
            members: RawObject::default(),
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
                return Ok(self.add_rest());
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
        let finish_reason = choice.finish_reason.filter(|reason| !reason.is_empty());
        let mut progress = self.add(choice.delta.unwrap_or_default());
        if finish_reason.is_some() {
            self.finish_reason = finish_reason;
            progress.extend(self.add_rest());
        }
        Ok(progress)
    }

    fn add(&mut self, delta: Delta) -> Vec<Progress> {
        let mut progress = Vec::new();
        if let Some((place, text)) = delta.thinking {
            self.thinking_place.get_or_insert(place);
            progress.extend(self.add_piece(Piece::Thinking(text)));
        }
        let pieces = match delta.content {
            Some(DeltaContent::Text(text)) => self.tags.push(&text),
            Some(DeltaContent::Parts(parts)) => parts.iter().map(|part| self.piece(part)).collect(),
            None => Vec::new(),
        };
        for piece in pieces {
            progress.extend(self.add_piece(piece));
        }
        if let Some(refusal) = delta.refusal {
            self.refusal.push_str(&refusal);
            progress.extend(self.add_piece(Piece::Text(refusal)));
        }
        for piece in delta.tool_calls {
            progress.extend(self.calls.push(piece, TEXT + 1));
        }
        self.members.continue_with(delta.members);
        progress
    }

    fn piece(&mut self, part: &ContentPart) -> Piece {
        match part {
            ContentPart::Thinking { .. } => {
                self.thinking_place.get_or_insert(ThinkingPlace::Content);
                Piece::Thinking(part.text())
            }
            ContentPart::Text { .. } | ContentPart::Other => Piece::Text(part.text()),
        }
    }

    fn add_piece(&mut self, piece: Piece) -> Vec<Progress> {
        let (index, all, started, text) = match piece {
            Piece::Thinking(text) => {
                let started = Progress::ThinkingStarted { index: THINKING };
                (THINKING, &mut self.thinking, started, text)
            }
            Piece::Text(text) => {
                (TEXT, &mut self.text, Progress::TextStarted { index: TEXT }, text)
            }
        };
        if text.is_empty() {
            return Vec::new();
        }
        let started = all.is_empty().then_some(started);
        all.push_str(&text);
        started.into_iter().chain([Progress::Delta { index, text: text.into() }]).collect()
    }

    /// Adds text that was held back because it could have been a part of a tag.
    fn add_rest(&mut self) -> Vec<Progress> {
        let rest = self.tags.finish();
        rest.map(|piece| self.add_piece(piece)).unwrap_or_default()
    }

    /// Returns true after a chunk with a finish reason.
    pub(super) fn is_ended(&self) -> bool {
        self.finish_reason.is_some()
    }

    /// Returns true after the last event.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Returns the reply if it has a finish reason or its last event. Not every server sends both.
    pub(super) fn finish(&self) -> Result<Reply, ModelError> {
        let is_whole = self.is_done && !(self.text.is_empty() && self.calls.all.is_empty());
        let ended = is_whole.then_some(STOP);
        let Some(reason) = self.finish_reason.as_deref().or(ended) else {
            return Err(ModelError::Truncated);
        };
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
            container: None,
        })
    }

    /// Returns the text that was received; `None` before the first chunk. Most servers report the
    /// usage in the last chunk only.
    pub(super) fn partial(&self) -> Option<PartialReply> {
        if !self.has_begun {
            return None;
        }
        let arguments = self.calls.all.iter().map(|call| call.arguments.chars().count());
        let texts = [&self.thinking, &self.text].map(|text| text.chars().count());
        let characters = texts.into_iter().chain(arguments).sum();
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

    /// The stop reason. Many servers send `stop` although the reply has calls, or a word of their
    /// model's own API.
    fn stop(&self, reason: &str) -> ModelStop {
        match reason.to_ascii_lowercase().as_str() {
            _ if !self.refusal.is_empty() => ModelStop::Refusal,
            "content_filter" | "safety" => ModelStop::Refusal,
            "length" | "max_tokens" | "model_length" => ModelStop::MaxTokens,
            STOP | "tool_calls" | "tool_call" | "tool_use" | "function_call" | "end_turn"
            | "eos" | "eos_token" | "stop_sequence" => {
                if self.calls.all.is_empty() {
                    ModelStop::EndTurn
                } else {
                    ModelStop::ToolUse
                }
            }
            _ => ModelStop::Other(reason.to_owned()),
        }
    }

    fn content(&self) -> Result<Content, ModelError> {
        let mut all = Vec::new();
        all.extend(self.thinking_block()?);
        if !self.text.is_empty() {
            all.push(blocks::text(&self.text)?);
        }
        for call in &self.calls.all {
            all.push(blocks::call(&call.id, &call.name, &call.arguments)?);
        }
        Content::from_blocks(all.iter().map(AsRef::as_ref)).map_err(blocks::unreadable)
    }

    /// The block of the reasoning and of all that the server gets back.
    fn thinking_block(&self) -> Result<Option<Box<RawValue>>, ModelError> {
        let with_members = self.calls.all.iter().filter(|call| !call.members.is_empty());
        let calls = with_members.map(|call| Ok((call.id.clone(), blocks::raw(&call.members)?)));
        let state = ProviderState {
            thinking: self.thinking_place,
            message: self.members.clone(),
            calls: calls.collect::<Result<_, ModelError>>()?,
        };
        if self.thinking.is_empty() && state.message.is_empty() && state.calls.is_empty() {
            return Ok(None);
        }
        let signature = state.signature().map_err(blocks::unreadable)?;
        blocks::thinking(&self.thinking, signature).map(Some)
    }
}

#[cfg(test)]
mod tests;
