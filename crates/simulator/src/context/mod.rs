//! What the model sees of a request: what stands from the last summary on, less what edits clear.
//! Pictures cost by their size in pixels, which is little beside their bytes, so these do not count.

mod clear;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::cache::Input;
use super::models::COMPACT;
use super::request::{Ask, At, blocks, role};
use super::validate::media;
use clear::Cleared;

/// Tokens from which on a conversation is summed up, unless the request says otherwise.
const DEFAULT_TRIGGER: u64 = 150_000;

/// A request as the model sees it.
#[derive(Debug, Clone)]
pub(crate) struct View<'a> {
    fields: Cow<'a, Map<String, Value>>,
    /// Its bytes but for pictures.
    pub(crate) size: usize,
    /// Its bytes before any edit.
    unedited: usize,
    applied: Option<Vec<Value>>,
}

impl<'a> View<'a> {
    /// The view of a request of `size` bytes.
    pub(crate) fn of(ask: Ask<'a>, size: usize) -> Self {
        let fields = Cow::Borrowed(ask.0);
        let size = size.saturating_sub(media::size(ask.messages().iter().flat_map(blocks)));
        let mut view = Self { fields, size, unedited: size, applied: None };
        let start = ask.start();
        if (start.message, start.index) != (0, 0) {
            view.replace(from(ask.messages(), start));
            view.unedited = view.size;
        }
        if ask.get("context_management").is_some_and(|setting| !setting.is_null()) {
            let applied = ask.edits().iter().filter_map(|edit| view.clear(edit)).collect();
            view.applied = Some(applied);
        }
        view
    }

    pub(crate) fn ask(&self) -> Ask<'_> {
        Ask(&self.fields)
    }

    /// The estimate of its tokens.
    pub(crate) fn tokens(&self) -> usize {
        tokens(self.size)
    }

    /// What a reply tells of the edits, if the request has any.
    pub(crate) fn report(&self) -> Option<Value> {
        self.applied.as_ref().map(|applied| json!({ "applied_edits": applied }))
    }

    /// The answer of `count_tokens`.
    pub(crate) fn count(&self) -> Value {
        let (left, original) = (self.tokens(), tokens(self.unedited));
        if self.applied.is_none() {
            return json!({ "input_tokens": left });
        }
        let report = json!({ "original_input_tokens": original });
        json!({ "input_tokens": left, "context_management": report })
    }

    /// Whether the request wants the conversation summed up before it is answered.
    pub(crate) fn is_due(&self) -> bool {
        let trigger = self.ask().edit(COMPACT).map(|edit| {
            let value = edit.get("trigger").and_then(|trigger| trigger["value"].as_u64());
            value.unwrap_or(DEFAULT_TRIGGER)
        });
        // A summary alone is not summed up again, however long the system prompt is.
        let says_more = self.ask().sent().any(|(_, located)| !located.block.is("compaction"));
        says_more && trigger.is_some_and(|trigger| self.tokens() as u64 >= trigger)
    }

    /// The view of the same request when the conversation is this summary.
    pub(crate) fn summed_up(&self, block: &Value) -> Self {
        let mut view = self.clone();
        view.replace(vec![json!({ "role": "assistant", "content": [block] })]);
        view
    }

    /// Applies an edit; what it did, if it did anything.
    fn clear(&mut self, edit: &Value) -> Option<Value> {
        let Cleared { messages, what, count } = clear::edit(edit, self.ask(), self.tokens())?;
        let before = self.size;
        self.replace(messages);
        let saved = tokens_between(self.size, before);
        let kind = edit.get("type");
        Some(json!({ "type": kind, what: count, "cleared_input_tokens": saved }))
    }

    fn replace(&mut self, messages: Vec<Value>) {
        let left = self.size.saturating_sub(size_of(self.ask().messages()));
        self.size = left + size_of(&messages);
        self.fields.to_mut().insert("messages".to_owned(), Value::Array(messages));
    }
}

/// The messages from a block on.
fn from(messages: &[Value], start: At) -> Vec<Value> {
    let mut rest: Vec<Value> = messages.iter().skip(start.message).cloned().collect();
    if let Some(first) = rest.first_mut() {
        let content = first.get("content").and_then(Value::as_array);
        let content: Vec<Value> =
            content.into_iter().flatten().skip(start.index).cloned().collect();
        *first = json!({ "role": role(first), "content": content });
    }
    rest
}

fn tokens(size: usize) -> usize {
    Input::of_size(size).uncached
}

fn tokens_between(less: usize, more: usize) -> usize {
    tokens(more).saturating_sub(tokens(less))
}

/// Bytes of messages with what separates them, but for pictures.
fn size_of(messages: &[Value]) -> usize {
    let all: usize = messages.iter().map(|message| message.to_string().len() + 1).sum();
    all.saturating_sub(media::size(messages.iter().flat_map(blocks)))
}
