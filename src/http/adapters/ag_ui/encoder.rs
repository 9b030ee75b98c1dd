//! Events as frames of server-sent events.

use bytes::Bytes;

use super::event::AgUiEvent;
use super::mapper::Mapper;
use crate::bus::PreviewFrame;
use crate::domain::event::Frame;
use crate::domain::ids::SessionId;
use crate::http::adapters::event::{RunEvent, RunPreview};
use crate::http::stream::encoder::StreamEncoder;
use crate::http::stream::format::StreamFormat;

/// The encoder of the stream of one run.
#[derive(Debug)]
pub(super) struct AgUiStream {
    mapper: Mapper,
    /// Events after the first one: the snapshots of a client that connects.
    snapshots: Vec<AgUiEvent>,
}

impl AgUiStream {
    pub(super) fn new(mapper: Mapper, snapshots: Vec<AgUiEvent>) -> Self {
        Self { mapper, snapshots }
    }
}

impl StreamEncoder for AgUiStream {
    fn first(&mut self, _continues: bool) -> Bytes {
        let mut frames = frames(&[self.mapper.start()]);
        frames.extend_from_slice(&self::frames(&std::mem::take(&mut self.snapshots)));
        frames.into()
    }

    fn event(&mut self, frame: &Frame) -> Bytes {
        let mut events = Vec::new();
        self.mapper.event(RunEvent::of(frame), &mut events);
        frames(&events).into()
    }

    fn preview(&mut self, preview: &PreviewFrame) -> Bytes {
        let mut events = Vec::new();
        self.mapper.preview(RunPreview::of(preview), &mut events);
        frames(&events).into()
    }

    fn deleted(&mut self, _session_id: SessionId) -> Bytes {
        self.mapper.deleted();
        Bytes::new()
    }

    fn end(&mut self) -> Bytes {
        frames(&self.mapper.end()).into()
    }

    fn keep_alive(&self) -> Bytes {
        StreamFormat::EventStream.keep_alive_bytes()
    }

    fn last(&self) -> Bytes {
        StreamFormat::EventStream.last_bytes()
    }
}

/// The frames of events.
pub(super) fn frames(events: &[AgUiEvent]) -> Vec<u8> {
    let mut frames = Vec::new();
    for event in events {
        frames.extend_from_slice(b"data: ");
        // Serializing strings, numbers and JSON values to a vector cannot fail.
        let _ = serde_json::to_writer(&mut frames, event);
        frames.extend_from_slice(b"\n\n");
    }
    frames
}
