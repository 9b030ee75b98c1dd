//! The part of a request that the model sees: the messages from the last summary on, without the
//! content that edits clear.
//!
//! Images cost tokens by their dimensions, which is little compared with their bytes. So their
//! bytes do not count.

mod clear;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::cache::Input;
use super::deferred::prompt_size;
use super::models::COMPACT;
use super::request::{ApiRequest, BlockPath, blocks, role};
use super::validate::media;
use clear::Cleared;

/// Default trigger of an automatic summary, in tokens.
const DEFAULT_TRIGGER: u64 = 150_000;

/// A request as the model sees it.
#[derive(Debug, Clone)]
pub(crate) struct View<'a> {
    fields: Cow<'a, Map<String, Value>>,
    /// Size in bytes, without images.
    pub(crate) size: usize,
    /// Size in bytes before any edit.
    unedited: usize,
    applied: Option<Vec<Value>>,
}

impl<'a> View<'a> {
    /// Returns the view of a request with `size` bytes.
    pub(crate) fn of(request: ApiRequest<'a>, size: usize) -> Self {
        let fields = Cow::Borrowed(request.0);
        let size = size.saturating_sub(media::size(request.messages().iter().flat_map(blocks)));
        let size = prompt_size(request, size);
        let mut view = Self { fields, size, unedited: size, applied: None };
        let start = request.start();
        if (start.message, start.index) != (0, 0) {
            view.replace(from(request.messages(), start));
            view.unedited = view.size;
        }
        if request.get("context_management").is_some_and(|setting| !setting.is_null()) {
            let applied = request.edits().iter().filter_map(|edit| view.clear(edit)).collect();
            view.applied = Some(applied);
        }
        view
    }

    pub(crate) fn request(&self) -> ApiRequest<'_> {
        ApiRequest(&self.fields)
    }

    /// Estimated number of tokens.
    pub(crate) fn tokens(&self) -> usize {
        tokens(self.size)
    }

    /// The report on the applied edits, if the request has edits.
    pub(crate) fn report(&self) -> Option<Value> {
        self.applied.as_ref().map(|applied| json!({ "applied_edits": applied }))
    }

    /// The response of `count_tokens`.
    pub(crate) fn count(&self) -> Value {
        let (left, original) = (self.tokens(), tokens(self.unedited));
        if self.applied.is_none() {
            return json!({ "input_tokens": left });
        }
        let report = json!({ "original_input_tokens": original });
        json!({ "input_tokens": left, "context_management": report })
    }

    /// True if the request asks for an automatic summary at this length.
    pub(crate) fn is_due(&self) -> bool {
        let trigger = self.request().edit(COMPACT).map(|edit| {
            let value = edit.get("trigger").and_then(|trigger| trigger["value"].as_u64());
            value.unwrap_or(DEFAULT_TRIGGER)
        });
        // A summary alone is not summarized again, however long the system prompt is.
        let says_more = self.request().sent().any(|(_, located)| !located.block.is("compaction"));
        says_more && trigger.is_some_and(|trigger| self.tokens() as u64 >= trigger)
    }

    /// Returns the view of the same request with this summary as the only message.
    pub(crate) fn summed_up(&self, block: &Value) -> Self {
        let mut view = self.clone();
        view.replace(vec![json!({ "role": "assistant", "content": [block] })]);
        view
    }

    /// Applies an edit. Returns its report if it changed anything.
    fn clear(&mut self, edit: &Value) -> Option<Value> {
        let Cleared { messages, what, count } = clear::edit(edit, self.request(), self.tokens())?;
        let before = self.size;
        self.replace(messages);
        let saved = tokens_between(self.size, before);
        let kind = edit.get("type");
        Some(json!({ "type": kind, what: count, "cleared_input_tokens": saved }))
    }

    fn replace(&mut self, messages: Vec<Value>) {
        let left = self.size.saturating_sub(size_of(self.request().messages()));
        self.size = left + size_of(&messages);
        self.fields.to_mut().insert("messages".to_owned(), Value::Array(messages));
    }
}

/// Returns the messages from a block on.
fn from(messages: &[Value], start: BlockPath) -> Vec<Value> {
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

/// Size in bytes of messages with their separators, without images.
fn size_of(messages: &[Value]) -> usize {
    let all: usize = messages.iter().map(|message| message.to_string().len() + 1).sum();
    all.saturating_sub(media::size(messages.iter().flat_map(blocks)))
}
