//! The events of the stream of a response.

use serde::Serialize;
use serde_json::Value;

/// An event. The encoder adds its number.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ResponseEvent {
    /// A piece of a text. A long piece may come as several shorter ones, so that its number counts bytes.
    Delta(TextDelta),
    /// An event of this type with these members.
    Other(&'static str, Value),
}

/// A piece of the text of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextDelta {
    /// True for the summary of a reasoning item.
    pub(super) is_summary: bool,
    pub(super) item_id: String,
    pub(super) output_index: usize,
    pub(super) text: String,
}

/// The frame of a piece of a text.
#[derive(Serialize)]
struct DeltaFrame<'a> {
    r#type: &'static str,
    sequence_number: usize,
    item_id: &'a str,
    output_index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary_index: Option<u32>,
    delta: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<[Value; 0]>,
}

/// The frame of another event.
#[derive(Serialize)]
struct OtherFrame<'a> {
    r#type: &'static str,
    sequence_number: usize,
    #[serde(flatten)]
    members: &'a Value,
}

impl ResponseEvent {
    /// Numbers the event after the number `last`, and writes it. Of an event that a client has up to
    /// the number `seen`, only the rest is written. Returns the number.
    ///
    /// The number of a piece of text counts the bytes of the text, and other events count 1. A text has
    /// the same numbers however it is divided into pieces, so that a client that has a part of the pieces
    /// can continue with others.
    pub(super) fn write(&self, last: usize, seen: usize, frames: &mut Vec<u8>) -> usize {
        match self {
            Self::Delta(delta) => {
                let number = last + delta.text.len();
                let mut known = seen.saturating_sub(last).min(delta.text.len());
                while !delta.text.is_char_boundary(known) {
                    known -= 1;
                }
                let rest = delta.text.get(known..).unwrap_or_default();
                if !rest.is_empty() {
                    write_frame(delta.kind(), &delta.frame(number, rest), frames);
                }
                number
            }
            Self::Other(kind, members) => {
                let sequence_number = last + 1;
                if sequence_number > seen {
                    write_frame(
                        kind,
                        &OtherFrame { r#type: kind, sequence_number, members },
                        frames,
                    );
                }
                sequence_number
            }
        }
    }
}

impl TextDelta {
    const fn kind(&self) -> &'static str {
        if self.is_summary {
            "response.reasoning_summary_text.delta"
        } else {
            "response.output_text.delta"
        }
    }

    fn frame<'a>(&'a self, sequence_number: usize, delta: &'a str) -> DeltaFrame<'a> {
        let is_text = !self.is_summary;
        DeltaFrame {
            r#type: self.kind(),
            sequence_number,
            item_id: &self.item_id,
            output_index: self.output_index,
            content_index: is_text.then_some(0),
            summary_index: self.is_summary.then_some(0),
            delta,
            logprobs: is_text.then_some([]),
        }
    }
}

fn write_frame(kind: &str, data: &impl Serialize, frames: &mut Vec<u8>) {
    frames.extend_from_slice(b"event: ");
    frames.extend_from_slice(kind.as_bytes());
    frames.extend_from_slice(b"\ndata: ");
    // Serializing strings and numbers to a vector cannot fail.
    let _ = serde_json::to_writer(&mut *frames, data);
    frames.extend_from_slice(b"\n\n");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn delta(text: &str) -> ResponseEvent {
        let item_id = "msg_1".to_owned();
        ResponseEvent::Delta(TextDelta {
            is_summary: false,
            item_id,
            output_index: 0,
            text: text.to_owned(),
        })
    }

    /// The texts and numbers of the frames that a client gets that has the events up to `seen`.
    fn sent(pieces: &[&str], seen: usize) -> Vec<(String, u64)> {
        let mut frames = Vec::new();
        let done = ResponseEvent::Other("response.output_text.done", json!({ "delta": "." }));
        let events = pieces.iter().map(|text| delta(text)).chain([done]);
        events.fold(1, |last, event| event.write(last, seen, &mut frames));
        let frames = String::from_utf8(frames).unwrap();
        let data = frames.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| {
            let frame: Value = serde_json::from_str(data).unwrap();
            let number = frame["sequence_number"].as_u64().unwrap();
            (frame["delta"].as_str().unwrap().to_owned(), number)
        })
        .collect()
    }

    #[test]
    fn numbers_are_those_of_the_text_and_not_of_its_pieces() {
        let own = |text: &str, number| (text.to_owned(), number);
        assert_eq!(sent(&["Grü", "ße"], 0), [own("Grü", 5), own("ße", 8), own(".", 9)]);
        assert_eq!(sent(&["Grüße"], 0), [own("Grüße", 8), own(".", 9)]);
        // A client that has the first of two pieces gets the rest of the whole.
        assert_eq!(sent(&["Grüße"], 5), [own("ße", 8), own(".", 9)]);
        assert_eq!(sent(&["Grüße"], 4), [own("üße", 8), own(".", 9)]);
        assert_eq!(sent(&["Grü", "ße"], 8), [own(".", 9)]);
        assert_eq!(sent(&["Grü", "ße"], 9), []);
    }
}
