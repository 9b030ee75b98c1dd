//! Previews: text, thinking and tool input of a session while they stream.

use std::sync::Arc;

use bytes::Bytes;

use super::wire::Message;
use crate::domain::event::{Preview, PreviewDelta, PreviewKind, PreviewText, PreviewedEvent};
use crate::domain::explanation::RunQueuePosition;
use crate::domain::ids::{RunId, SessionId, WorkerId};

/// The beginning of a preview.
#[derive(Debug, Clone)]
pub struct PreviewStart {
    /// The ID of the event that replaces the preview.
    pub event_id: String,
    /// The type of that event.
    pub kind: PreviewKind,
    /// The tool's name.
    pub name: Option<String>,
}

/// A whole SSE frame of a preview.
#[derive(Debug, Clone)]
pub struct PreviewFrame {
    /// The ID of the event that replaces the preview; empty if none does.
    pub event_id: Arc<str>,
    /// The run that produces the preview.
    pub run_id: RunId,
    /// The type of the preview.
    pub kind: &'static str,
    /// The lines `event` and `data` and a blank line. A preview has no sequence number and so no
    /// `id`.
    pub sse: Bytes,
}

impl PreviewStart {
    /// Returns the message to other processes.
    pub(super) fn message(&self, to: Option<WorkerId>, session: SessionId, run: RunId) -> Message {
        let Self { event_id, kind, name } = self.clone();
        Message::Start { to, session, run, id: event_id, kind, name }
    }
}

/// An open preview with its text so far, so that late readers receive all of it.
#[derive(Debug)]
pub(super) struct OpenPreview {
    session_id: SessionId,
    run_id: RunId,
    event_id: Arc<str>,
    start: PreviewStart,
    parts: Vec<(usize, String)>,
    /// `true` if another process produces it.
    is_remote: bool,
}

impl OpenPreview {
    pub(super) fn new(session_id: SessionId, run_id: RunId, start: PreviewStart) -> Self {
        let event_id = start.event_id.as_str().into();
        Self { session_id, run_id, event_id, start, parts: Vec::new(), is_remote: false }
    }

    /// Creates a preview that another process produces.
    pub(super) fn remote(session_id: SessionId, run_id: RunId, start: PreviewStart) -> Self {
        Self { is_remote: true, ..Self::new(session_id, run_id, start) }
    }

    pub(super) fn is_remote(&self) -> bool {
        self.is_remote
    }

    pub(super) fn event_id(&self) -> &str {
        &self.event_id
    }

    /// Returns the messages that bring a process up to date that starts to listen now.
    pub(super) fn messages(&self, to: WorkerId) -> impl Iterator<Item = Message> {
        let (to, session) = (Some(to), self.session_id);
        let deltas = self.parts.iter().map(move |(index, text)| Message::Delta {
            to,
            session,
            id: self.event_id.to_string(),
            index: *index,
            text: text.clone(),
        });
        std::iter::once(self.start.message(to, session, self.run_id)).chain(deltas)
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

    /// Returns the frames that bring a new reader up to date.
    pub(super) fn catch_up(&self) -> Vec<PreviewFrame> {
        let deltas = self.parts.iter().map(|(index, text)| self.delta_frame(*index, text));
        std::iter::once(self.start_frame()).chain(deltas).collect()
    }

    pub(super) fn start_frame(&self) -> PreviewFrame {
        let PreviewStart { event_id, kind, name } = &self.start;
        self.frame(&Preview::EventStart {
            event: PreviewedEvent {
                r#type: kind.event_kind(),
                id: event_id,
                name: name.as_deref(),
            },
            session_id: self.session_id,
            run_id: self.run_id,
        })
    }

    fn delta_frame(&self, index: usize, text: &str) -> PreviewFrame {
        let delta = match self.start.kind {
            PreviewKind::Message | PreviewKind::Thinking => {
                PreviewDelta::ContentDelta { index, content: PreviewText { r#type: "text", text } }
            }
            PreviewKind::ToolUse => PreviewDelta::InputJsonDelta { partial_json: text },
        };
        self.frame(&Preview::EventDelta {
            event_id: &self.event_id,
            delta,
            session_id: self.session_id,
            run_id: self.run_id,
        })
    }

    fn frame(&self, preview: &Preview<'_>) -> PreviewFrame {
        PreviewFrame::new(Arc::clone(&self.event_id), self.run_id, preview)
    }
}

impl PreviewFrame {
    fn new(event_id: Arc<str>, run_id: RunId, preview: &Preview<'_>) -> Self {
        let kind = match preview {
            Preview::EventStart { .. } => "event_start",
            Preview::EventDelta { .. } => "event_delta",
            Preview::QueuePosition { .. } => "queue_position",
        };
        let mut sse = format!("event: {kind}\ndata: ").into_bytes();
        // Serializing strings and numbers to a vector cannot fail.
        let _ = serde_json::to_writer(&mut sse, preview);
        sse.extend_from_slice(b"\n\n");
        Self { event_id, run_id, kind, sse: sse.into() }
    }

    /// The position of a queued run. No event replaces it.
    pub(super) fn queued(session_id: SessionId, run_id: RunId, place: RunQueuePosition) -> Self {
        let RunQueuePosition { position, length } = place;
        let preview = Preview::QueuePosition { position, length, session_id, run_id };
        Self::new(Arc::default(), run_id, &preview)
    }
}
