//! What is open in a session: text, thinking and tool input while it streams.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use crate::domain::event::PreviewKind;
use crate::domain::ids::{RunId, SessionId};

/// The beginning of a preview.
#[derive(Debug, Clone)]
pub struct PreviewStart {
    /// The id of the event that will replace it.
    pub event_id: String,
    /// What it will become.
    pub kind: PreviewKind,
    /// The tool's name.
    pub name: Option<String>,
}

/// A whole SSE frame of a preview.
#[derive(Debug, Clone)]
pub struct PreviewFrame {
    /// The event that will replace the preview.
    pub event_id: Arc<str>,
    /// The run that streams.
    pub run_id: RunId,
    /// `event`, `data` and the blank line; a preview has no number and so no `id`.
    pub sse: Bytes,
}

/// A preview and all that has come of it, so that a reader who comes late misses nothing.
#[derive(Debug)]
pub(super) struct Preview {
    session_id: SessionId,
    run_id: RunId,
    event_id: Arc<str>,
    start: PreviewStart,
    parts: Vec<(usize, String)>,
}

#[derive(Serialize)]
struct StartData<'a> {
    r#type: &'static str,
    event: StartEvent<'a>,
    session_id: SessionId,
    run_id: RunId,
}

#[derive(Serialize)]
struct StartEvent<'a> {
    r#type: &'static str,
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

#[derive(Serialize)]
struct DeltaData<'a> {
    r#type: &'static str,
    event_id: &'a str,
    delta: Delta<'a>,
    session_id: SessionId,
    run_id: RunId,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Delta<'a> {
    ContentDelta { index: usize, content: Text<'a> },
    InputJsonDelta { partial_json: &'a str },
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'static str,
    text: &'a str,
}

impl Preview {
    pub(super) fn new(session_id: SessionId, run_id: RunId, start: PreviewStart) -> Self {
        let event_id = start.event_id.as_str().into();
        Self {
            session_id,
            run_id,
            event_id,
            start,
            parts: Vec::new(),
        }
    }

    pub(super) fn has_id(&self, event_id: &str) -> bool {
        self.start.event_id == event_id
    }

    pub(super) fn is_of(&self, run_id: Option<RunId>) -> bool {
        Some(self.run_id) == run_id
    }

    pub(super) fn push(&mut self, index: usize, text: &str) -> PreviewFrame {
        match self.parts.last_mut() {
            Some((last, part)) if *last == index => part.push_str(text),
            _ => self.parts.push((index, text.to_owned())),
        }
        self.delta_frame(index, text)
    }

    /// The preview as one who comes now must see it.
    pub(super) fn catch_up(&self) -> Vec<PreviewFrame> {
        let deltas = self
            .parts
            .iter()
            .map(|(index, text)| self.delta_frame(*index, text));
        std::iter::once(self.start_frame()).chain(deltas).collect()
    }

    pub(super) fn start_frame(&self) -> PreviewFrame {
        let PreviewStart {
            event_id,
            kind,
            name,
        } = &self.start;
        let event = StartEvent {
            r#type: kind.event_kind(),
            id: event_id,
            name: name.as_deref(),
        };
        self.frame(
            "event_start",
            &StartData {
                r#type: "event_start",
                event,
                session_id: self.session_id,
                run_id: self.run_id,
            },
        )
    }

    fn delta_frame(&self, index: usize, text: &str) -> PreviewFrame {
        let delta = match self.start.kind {
            PreviewKind::Message | PreviewKind::Thinking => Delta::ContentDelta {
                index,
                content: Text {
                    r#type: "text",
                    text,
                },
            },
            PreviewKind::ToolUse => Delta::InputJsonDelta { partial_json: text },
        };
        self.frame(
            "event_delta",
            &DeltaData {
                r#type: "event_delta",
                event_id: &self.start.event_id,
                delta,
                session_id: self.session_id,
                run_id: self.run_id,
            },
        )
    }

    fn frame<T: Serialize>(&self, name: &str, data: &T) -> PreviewFrame {
        let mut sse = format!("event: {name}\ndata: ").into_bytes();
        // Strings and numbers always serialize, and a vector takes every byte.
        let _ = serde_json::to_writer(&mut sse, data);
        sse.extend_from_slice(b"\n\n");
        let event_id = Arc::clone(&self.event_id);
        PreviewFrame {
            event_id,
            run_id: self.run_id,
            sse: sse.into(),
        }
    }
}
