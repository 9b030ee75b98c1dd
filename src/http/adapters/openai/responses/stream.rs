//! Responses as streams of events.

use bytes::Bytes;
use serde_json::json;

use super::event::ResponseEvent;
use super::mapper::ResponseMapper;
use super::resource::OpenAiResponse;
use crate::bus::PreviewFrame;
use crate::domain::event::Frame;
use crate::domain::ids::SessionId;
use crate::http::adapters::event::{RunEvent, RunPreview};
use crate::http::stream::encoder::StreamEncoder;
use crate::http::stream::format::StreamFormat;

/// The encoder of the stream of one response.
#[derive(Debug)]
pub(super) struct ResponseStream {
    mapper: ResponseMapper,
    response: OpenAiResponse,
    /// The number of the last event.
    number: usize,
    /// The number of the last event that the client has.
    seen: usize,
}

impl ResponseStream {
    /// A stream after the event with the number `seen`; 0 for the whole stream, which begins with 1.
    pub(super) fn new(mapper: ResponseMapper, response: OpenAiResponse, seen: usize) -> Self {
        Self { mapper, response, number: 0, seen }
    }

    fn frames(&mut self, events: &[ResponseEvent]) -> Bytes {
        let mut frames = Vec::new();
        for event in events {
            self.number = event.write(self.number, self.seen, &mut frames);
        }
        frames.into()
    }
}

impl StreamEncoder for ResponseStream {
    fn first(&mut self, _continues: bool) -> Bytes {
        let kinds = ["response.created", "response.in_progress"];
        let event = |kind| ResponseEvent::Other(kind, json!({ "response": self.response }));
        let events = kinds.map(event);
        self.frames(&events)
    }

    fn event(&mut self, frame: &Frame) -> Bytes {
        let mut events = Vec::new();
        self.mapper.event(frame.seq, RunEvent::of(frame), &mut events);
        self.frames(&events)
    }

    fn preview(&mut self, preview: &PreviewFrame) -> Bytes {
        let mut events = Vec::new();
        self.mapper.preview(RunPreview::of(preview), &mut events);
        self.frames(&events)
    }

    fn deleted(&mut self, _session_id: SessionId) -> Bytes {
        self.mapper.deleted();
        Bytes::new()
    }

    fn is_complete(&self) -> bool {
        self.mapper.is_complete
    }

    fn end(&mut self) -> Bytes {
        let mut events = Vec::new();
        let ending = self.mapper.end(&mut events);
        let response = self.response.ended(&self.mapper, ending);
        let kind = response.status().last_event();
        events.push(ResponseEvent::Other(kind, json!({ "response": response })));
        self.frames(&events)
    }

    fn keep_alive(&self) -> Bytes {
        StreamFormat::EventStream.keep_alive_bytes()
    }

    fn last(&self) -> Bytes {
        StreamFormat::EventStream.last_bytes()
    }
}
