//! A message in the making.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Line;
use crate::agent::history::results;
use crate::domain::message::{BadContent, Block, Role, View};
use crate::domain::tool::{CANCELLED, CallResult, CallState, INTERRUPTED};

/// A message in the making.
pub(super) struct Entry<'a> {
    /// The message as it was given; what cannot be read stays as it is.
    pub(super) line: Line<'a>,
    pub(super) place: usize,
    pub(super) parts: Vec<Part>,
    pub(super) is_readable: bool,
    pub(super) is_changed: bool,
}

/// A block, apart from the text that it came from.
pub(super) struct Part {
    pub(super) raw: Box<RawValue>,
    pub(super) what: What,
}

impl Part {
    pub(super) fn is_synthetic(&self) -> bool {
        matches!(self.what, What::Result { is_synthetic: true, .. })
    }

    /// The answer to a call whose own is lost.
    pub(super) fn interrupted(id: &str) -> Option<Self> {
        let result = CallResult::of_text(id, CallState::Interrupted, INTERRUPTED);
        let content = results(&[result]).ok()?;
        let raw = content.blocks().ok()?.first()?.raw.to_owned();
        Some(Self { raw, what: What::Result { id: id.to_owned(), is_synthetic: true } })
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum What {
    Call(String),
    /// An answer to a call, and whether only the service made it up.
    Result {
        id: String,
        is_synthetic: bool,
    },
    ServerCall(String),
    ServerResult(String),
    BlankText,
    Thinking,
    Other,
}

impl What {
    pub(super) fn of(block: &Block<'_>) -> Self {
        match &block.view {
            View::Text(text) if text.trim().is_empty() => Self::BlankText,
            View::Text(_) | View::Other { tool_use_id: None } => Self::Other,
            View::Thinking(_) | View::RedactedThinking => Self::Thinking,
            View::ToolUse(call) => Self::Call(call.id.clone().into_owned()),
            View::ToolResult { tool_use_id, .. } => Self::Result {
                id: tool_use_id.clone().into_owned(),
                is_synthetic: is_synthetic(block.raw),
            },
            View::ServerToolUse { id } => Self::ServerCall(id.clone().into_owned()),
            View::Other { tool_use_id: Some(id) } => Self::ServerResult(id.clone().into_owned()),
        }
    }

    pub(super) fn is_result(&self) -> bool {
        matches!(self, Self::Result { .. })
    }

    pub(super) fn is_result_of(&self, call: &str) -> bool {
        matches!(self, Self::Result { id, .. } if id == call)
    }
}

/// Whether a result only says that nobody knows, or that nothing was done.
fn is_synthetic(raw: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Said<'a> {
        #[serde(borrow)]
        content: Cow<'a, str>,
    }
    let said: Result<Said<'_>, _> = serde_json::from_str(raw.get());
    said.is_ok_and(|said| said.content == INTERRUPTED || said.content == CANCELLED)
}

impl<'a> Entry<'a> {
    pub(super) fn read((place, line): (usize, &Line<'a>)) -> Self {
        let read = || {
            let raw: Vec<&RawValue> = serde_json::from_str(&line.content)?;
            let part = |raw: &RawValue| {
                let block = Block::view(raw)?;
                Ok(Part { what: What::of(&block), raw: raw.to_owned() })
            };
            raw.into_iter().map(part).collect()
        };
        let parts: Result<Vec<Part>, BadContent> = read();
        let is_readable = parts.is_ok();
        let parts = parts.unwrap_or_default();
        Self { line: line.clone(), place, parts, is_readable, is_changed: false }
    }

    pub(super) fn new(role: Role, place: usize) -> Self {
        let line = Line { role, content: Cow::Borrowed("[]") };
        Self { line, place, parts: Vec::new(), is_readable: true, is_changed: true }
    }

    pub(super) fn line(self) -> Line<'a> {
        if !self.is_changed {
            return self.line;
        }
        let raw: Vec<&str> = self.parts.iter().map(|part| part.raw.get()).collect();
        Line { role: self.line.role, content: Cow::Owned(format!("[{}]", raw.join(","))) }
    }

    pub(super) fn calls(&self) -> Vec<String> {
        if self.line.role != Role::Assistant {
            return Vec::new();
        }
        let ids = self.parts.iter().filter_map(|part| match &part.what {
            What::Call(id) => Some(id.clone()),
            What::Result { .. }
            | What::ServerCall(_)
            | What::ServerResult(_)
            | What::BlankText
            | What::Thinking
            | What::Other => None,
        });
        ids.collect()
    }

    /// Whether all results come before anything else.
    pub(super) fn is_leading(&self) -> bool {
        self.parts.is_sorted_by_key(|part| !part.what.is_result())
    }

    /// Whether it begins with one result for each of these calls, and has no others.
    pub(super) fn answers(&self, calls: &[String]) -> bool {
        let results = self.parts.iter().filter(|part| part.what.is_result()).count();
        let has = |id: &String| self.parts.iter().any(|part| part.what.is_result_of(id));
        results == calls.len() && calls.iter().all(has) && self.is_leading()
    }

    pub(super) fn take_results(&mut self, id: &str) -> Vec<Part> {
        self.parts.extract_if(.., |part| part.what.is_result_of(id)).collect()
    }

    /// Leaves out some blocks, and says how many.
    pub(super) fn drop_parts(&mut self, is_dropped: impl Fn(&What) -> bool) -> usize {
        let before = self.parts.len();
        self.parts.retain(|part| !is_dropped(&part.what));
        let dropped = before - self.parts.len();
        self.is_changed |= dropped > 0;
        dropped
    }

    /// Whether it has nothing to say. Thinking alone says nothing once the rest was left out.
    pub(super) fn is_empty(&self) -> bool {
        let mut parts = self.parts.iter();
        self.is_readable
            && if self.is_changed {
                parts.all(|part| part.what == What::Thinking)
            } else {
                self.parts.is_empty()
            }
    }
}
