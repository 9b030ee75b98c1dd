//! The parts of a message that are being streamed: text, reasoning and inputs of calls.

use serde_json::json;

use super::chunk::Chunk;
use crate::domain::event::PreviewKind;
use crate::http::adapters::event::{Delta, PreviewStart};
use crate::http::adapters::sent_text::SentText;

/// The text of a call whose reply was discarded.
const NOT_MADE: &str = "The call was not made: the reply of the model was discarded.";

/// A part that is being streamed. It starts in the client with its first text.
#[derive(Debug)]
struct OpenPart {
    /// The id of the event, or of the call.
    id: String,
    kind: PreviewKind,
    /// The name of the tool.
    name: String,
    text: SentText,
}

/// The parts that are being streamed, in the order of their beginning.
#[derive(Debug, Default)]
pub(super) struct OpenParts(Vec<OpenPart>);

impl OpenParts {
    /// A preview begins, or begins again.
    pub(super) fn start(&mut self, start: PreviewStart, chunks: &mut Vec<Chunk>) {
        if let Some(part) = self.find(&start.id) {
            part.text.restart();
            return;
        }
        let kind = start.kind();
        let PreviewStart { id, name, .. } = start;
        let name = name.unwrap_or_default();
        if kind == PreviewKind::ToolUse {
            chunks.push(Chunk::ToolInputStart {
                tool_call_id: id.clone(),
                tool_name: name.clone(),
                dynamic: true,
            });
        }
        self.0.push(OpenPart { id, kind, name, text: SentText::default() });
    }

    /// The next piece of a preview.
    pub(super) fn push(&mut self, event_id: &str, delta: Delta, chunks: &mut Vec<Chunk>) {
        let Some(part) = self.find(event_id) else { return };
        let is_first = part.text.is_empty();
        let new = part.text.push(&delta.into_text());
        if !new.is_empty() {
            part.send(is_first, new, chunks);
        }
    }

    /// The complete text of a part, or of one that was not previewed. Sends the rest of it.
    pub(super) fn complete(
        &mut self,
        id: &str,
        kind: PreviewKind,
        text: &str,
        chunks: &mut Vec<Chunk>,
    ) {
        let part = self.take(id);
        let mut part = part.unwrap_or_else(|| OpenPart::new(id, kind));
        let Some(rest) = part.text.rest(text) else {
            // The client cannot replace the text that it has, so it gets a new part.
            part.close(chunks);
            part = OpenPart::new(id, kind);
            part.send(true, text.to_owned(), chunks);
            part.end(chunks);
            return;
        };
        let is_first = part.text.is_empty();
        if !rest.is_empty() {
            part.send(is_first, rest.to_owned(), chunks);
        }
        if !text.is_empty() {
            part.end(chunks);
        }
    }

    /// Removes the preview of a call, which its complete input replaces.
    pub(super) fn take_call(&mut self, id: &str) {
        self.take(id);
    }

    /// Closes all parts: no event replaces them.
    pub(super) fn discard(&mut self, chunks: &mut Vec<Chunk>) {
        for part in self.0.drain(..) {
            part.close(chunks);
        }
    }

    fn find(&mut self, id: &str) -> Option<&mut OpenPart> {
        self.0.iter_mut().find(|part| part.id == id)
    }

    fn take(&mut self, id: &str) -> Option<OpenPart> {
        let position = self.0.iter().position(|part| part.id == id)?;
        Some(self.0.remove(position))
    }
}

impl OpenPart {
    fn new(id: &str, kind: PreviewKind) -> Self {
        Self { id: id.to_owned(), kind, name: String::new(), text: SentText::default() }
    }

    /// Sends text, after the start of the part if it is the first one.
    fn send(&self, is_first: bool, delta: String, chunks: &mut Vec<Chunk>) {
        let id = || self.id.clone();
        match self.kind {
            PreviewKind::Message => {
                chunks.extend(is_first.then(|| Chunk::TextStart { id: id() }));
                chunks.push(Chunk::TextDelta { id: id(), delta });
            }
            PreviewKind::Thinking => {
                chunks.extend(is_first.then(|| Chunk::ReasoningStart { id: id() }));
                chunks.push(Chunk::ReasoningDelta { id: id(), delta });
            }
            PreviewKind::ToolUse => {
                chunks.push(Chunk::ToolInputDelta { tool_call_id: id(), input_text_delta: delta });
            }
        }
    }

    fn end(&self, chunks: &mut Vec<Chunk>) {
        let id = self.id.clone();
        match self.kind {
            PreviewKind::Message => chunks.push(Chunk::TextEnd { id }),
            PreviewKind::Thinking => chunks.push(Chunk::ReasoningEnd { id }),
            PreviewKind::ToolUse => {}
        }
    }

    /// Ends a part that no event completes.
    fn close(self, chunks: &mut Vec<Chunk>) {
        if self.kind != PreviewKind::ToolUse {
            if !self.text.is_empty() {
                self.end(chunks);
            }
            return;
        }
        chunks.push(Chunk::ToolInputError {
            tool_call_id: self.id,
            tool_name: self.name,
            input: json!({}),
            error_text: NOT_MADE.to_owned(),
            dynamic: true,
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn start(id: &str, kind: PreviewKind) -> PreviewStart {
        let start = json!({ "id": id, "type": kind.event_kind(), "name": "ring" });
        serde_json::from_value(start).unwrap()
    }

    fn delta(text: &str) -> Delta {
        let content = json!({ "type": "text", "text": text });
        serde_json::from_value(json!({ "type": "content_delta", "content": content })).unwrap()
    }

    fn shown(chunks: &[Chunk]) -> Vec<String> {
        let shown = |chunk: &Chunk| {
            let chunk = serde_json::to_value(chunk).unwrap();
            let delta = chunk.get("delta").and_then(Value::as_str).unwrap_or_default();
            format!("{} {delta}", chunk["type"].as_str().unwrap()).trim().to_owned()
        };
        chunks.iter().map(shown).collect()
    }

    #[test]
    fn a_complete_text_sends_what_the_client_has_not_had() {
        let (mut parts, mut chunks) = (OpenParts::default(), Vec::new());
        parts.start(start("e", PreviewKind::Message), &mut chunks);
        parts.push("e", delta("one "), &mut chunks);
        // The reader has missed a part, so the preview comes again.
        parts.start(start("e", PreviewKind::Message), &mut chunks);
        parts.push("e", delta("one two "), &mut chunks);
        parts.complete("e", PreviewKind::Message, "one two three", &mut chunks);
        let expected =
            ["text-start", "text-delta one", "text-delta two", "text-delta three", "text-end"];
        assert_eq!(shown(&chunks), expected);
    }

    #[test]
    fn a_text_that_differs_from_its_preview_is_a_part_of_its_own() {
        let (mut parts, mut chunks) = (OpenParts::default(), Vec::new());
        parts.start(start("e", PreviewKind::Message), &mut chunks);
        parts.push("e", delta("one"), &mut chunks);
        parts.complete("e", PreviewKind::Message, "two", &mut chunks);
        let part = |text: &str| {
            ["text-start".to_owned(), format!("text-delta {text}"), "text-end".to_owned()]
        };
        assert_eq!(shown(&chunks), [part("one"), part("two")].concat());
    }

    #[test]
    fn an_empty_part_is_left_out() {
        let (mut parts, mut chunks) = (OpenParts::default(), Vec::new());
        parts.start(start("e", PreviewKind::Thinking), &mut chunks);
        parts.complete("e", PreviewKind::Thinking, "", &mut chunks);
        assert_eq!(chunks, []);
    }

    #[test]
    fn a_discarded_reply_leaves_no_part_open() {
        let (mut parts, mut chunks) = (OpenParts::default(), Vec::new());
        parts.start(start("e", PreviewKind::Message), &mut chunks);
        parts.push("e", delta("one"), &mut chunks);
        parts.start(start("c", PreviewKind::ToolUse), &mut chunks);
        parts.discard(&mut chunks);
        let expected =
            ["text-start", "text-delta one", "tool-input-start", "text-end", "tool-input-error"];
        assert_eq!(shown(&chunks), expected);
    }
}
