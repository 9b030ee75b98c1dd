//! Stream events, from a message.

use std::io::Write as _;

use serde::Serialize;
use serde_json::{Value, json};

use super::message::{Message, Part};

/// Default length of a delta in characters.
pub(crate) const CHUNK: usize = 12;

/// A ping.
pub(crate) const PING: &[u8] = b"event: ping\ndata: {\"type\": \"ping\"}\n\n";

/// The bytes of a response body, with the ends of its events.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Wire {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ends: Vec<usize>,
}

/// The stream of a message, in deltas of `chunk` characters.
pub(crate) fn stream(message: &Message, chunk: usize) -> Wire {
    let mut wire = Wire::default();
    wire.event("message_start", &json!({ "type": "message_start", "message": message.opening() }));
    for (index, part) in message.content.iter().enumerate() {
        let opening = part.opening();
        let start =
            json!({ "type": "content_block_start", "index": index, "content_block": opening });
        wire.event("content_block_start", &start);
        if index == 0 {
            wire.raw(PING);
        }
        deltas(&mut wire, index, part, chunk);
        wire.event("content_block_stop", &json!({ "type": "content_block_stop", "index": index }));
    }
    wire.event("message_delta", &closing(message));
    wire.event("message_stop", &json!({ "type": "message_stop" }));
    wire
}

fn closing(message: &Message) -> Value {
    let mut delta = json!({
        "stop_reason": message.stop_reason,
        "stop_sequence": message.stop_sequence,
        "stop_details": message.stop_details,
    });
    if let (Some(container), Value::Object(fields)) = (&message.container, &mut delta) {
        fields.insert("container".to_owned(), container.clone());
    }
    message.with_report(json!({
        "type": "message_delta",
        "delta": delta,
        "usage": message.closing_usage(),
    }))
}

fn deltas(wire: &mut Wire, index: usize, part: &Part, chunk: usize) {
    match part {
        Part::Text { text, citations } => {
            for piece in pieces(text, chunk) {
                wire.delta(index, "text_delta", "text", piece);
            }
            for citation in citations {
                wire.delta(index, "citations_delta", "citation", citation);
            }
        }
        Part::Thinking { thinking, signature } => {
            for piece in pieces(thinking, chunk) {
                wire.delta(index, "thinking_delta", "thinking", piece);
            }
            wire.delta(index, "signature_delta", "signature", signature);
        }
        Part::Call { input, .. } => {
            wire.delta(index, "input_json_delta", "partial_json", "");
            for piece in pieces(input, chunk).filter(|_| input != "{}") {
                wire.delta(index, "input_json_delta", "partial_json", piece);
            }
        }
        Part::Compaction(summary) => wire.delta(index, "compaction_delta", "content", summary),
        Part::Raw(_) => {}
    }
}

/// Splits `text` into pieces of `chunk` characters.
pub(crate) fn pieces(text: &str, chunk: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(chunk.max(1)).map_or(rest.len(), |(end, _)| end);
        let (piece, tail) = rest.split_at_checked(end)?;
        rest = tail;
        (!piece.is_empty()).then_some(piece)
    })
}

impl Wire {
    /// A body that is one JSON value.
    pub(crate) fn json(value: &Value) -> Self {
        let mut wire = Self::default();
        wire.raw(value.to_string().as_bytes());
        wire
    }

    /// A scripted stream, unchanged. Its events end at blank lines.
    pub(crate) fn verbatim(text: &str) -> Self {
        let bytes = text.as_bytes().to_vec();
        let mut ends = Vec::new();
        let mut start_of_line = 0;
        for (at, byte) in bytes.iter().enumerate() {
            if *byte == b'\n' {
                if text.get(start_of_line..at).is_some_and(|line| line.trim_end() == "") && at > 0 {
                    ends.push(at + 1);
                }
                start_of_line = at + 1;
            }
        }
        if ends.last() != Some(&bytes.len()) {
            ends.push(bytes.len());
        }
        Self { bytes, ends }
    }

    /// Appends an event with the data `payload`.
    pub(crate) fn event<T: Serialize>(&mut self, name: &str, payload: &T) {
        self.head(name);
        let _ = serde_json::to_writer(&mut self.bytes, payload);
        self.bytes.pop(); // the closing brace comes after the padding
        self.close();
    }

    /// Keeps the first `count` events.
    pub(crate) fn keep_events(&mut self, count: usize) {
        let end = count
            .checked_sub(1)
            .map_or(0, |last| self.ends.get(last).copied().unwrap_or(self.bytes.len()));
        self.ends.truncate(count);
        self.bytes.truncate(end);
    }

    /// Keeps the first `count` bytes.
    pub(crate) fn keep_bytes(&mut self, count: usize) {
        self.bytes.truncate(count);
        self.ends.retain(|end| *end < count);
        self.ends.push(self.bytes.len());
    }

    /// Appends a delta, the most frequent event, without building a JSON value.
    fn delta<T: Serialize + ?Sized>(&mut self, index: usize, kind: &str, field: &str, value: &T) {
        self.head("content_block_delta");
        // Writing to memory cannot fail.
        let _ = write!(
            self.bytes,
            r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"{kind}","{field}":"#
        );
        let _ = serde_json::to_writer(&mut self.bytes, value);
        self.bytes.push(b'}');
        self.close();
    }

    fn head(&mut self, name: &str) {
        for piece in ["event: ", name, "\ndata: "] {
            self.bytes.extend_from_slice(piece.as_bytes());
        }
    }

    /// Closes the data: spaces, as the API pads it, the last brace and a blank line.
    fn close(&mut self) {
        let padding = self.bytes.len().wrapping_mul(2_654_435_761) >> 7 & 15;
        self.bytes.extend(std::iter::repeat_n(b' ', padding));
        self.raw(b"}\n\n");
    }

    /// Appends an event without a name.
    pub(crate) fn data(&mut self, payload: &Value) {
        self.raw(format!("data: {payload}\n\n").as_bytes());
    }

    /// Appends an encoded event.
    pub(crate) fn raw(&mut self, event: &[u8]) {
        self.bytes.extend_from_slice(event);
        self.ends.push(self.bytes.len());
    }
}
