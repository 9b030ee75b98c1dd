//! Chunks as frames of server-sent events.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderName, HeaderValue};

use super::chunk::Chunk;
use super::mapper::Mapper;
use crate::bus::PreviewFrame;
use crate::domain::event::Frame;
use crate::domain::ids::SessionId;
use crate::http::adapters::event::{RunEvent, RunPreview};
use crate::http::stream::encoder::StreamEncoder;
use crate::http::stream::format::StreamFormat;
use crate::http::stream::response::streamed;

/// The header by which clients recognize the protocol.
const VERSION: HeaderName = HeaderName::from_static("x-vercel-ai-ui-message-stream");
/// The frame after the last chunk.
const DONE: &[u8] = b"data: [DONE]\n\n";

/// The encoder of the stream of one run.
#[derive(Debug)]
pub(super) struct UiStream(pub(super) Mapper);

impl UiStream {
    fn frames(&mut self, map: impl FnOnce(&mut Mapper, &mut Vec<Chunk>)) -> Bytes {
        let mut chunks = Vec::new();
        map(&mut self.0, &mut chunks);
        let mut frames = Vec::new();
        write(&chunks, &mut frames);
        frames.into()
    }
}

impl StreamEncoder for UiStream {
    fn first(&mut self, _continues: bool) -> Bytes {
        let mut frames = StreamFormat::EventStream.first_bytes(true).to_vec();
        write(&[self.0.start()], &mut frames);
        frames.into()
    }

    fn event(&mut self, frame: &Frame) -> Bytes {
        self.frames(|mapper, chunks| mapper.event(RunEvent::of(frame), chunks))
    }

    fn preview(&mut self, preview: &PreviewFrame) -> Bytes {
        self.frames(|mapper, chunks| mapper.preview(RunPreview::of(preview), chunks))
    }

    fn deleted(&mut self, _session_id: SessionId) -> Bytes {
        self.0.deleted();
        Bytes::new()
    }

    fn end(&mut self) -> Bytes {
        let mut frames = Vec::new();
        write(&self.0.end(), &mut frames);
        frames.extend_from_slice(DONE);
        frames.into()
    }

    fn keep_alive(&self) -> Bytes {
        StreamFormat::EventStream.keep_alive_bytes()
    }

    fn last(&self) -> Bytes {
        StreamFormat::EventStream.last_bytes()
    }
}

fn write(chunks: &[Chunk], frames: &mut Vec<u8>) {
    for chunk in chunks {
        frames.extend_from_slice(b"data: ");
        // Serializing strings, numbers and JSON values to a vector cannot fail.
        let _ = serde_json::to_writer(&mut *frames, chunk);
        frames.extend_from_slice(b"\n\n");
    }
}

/// A response with the headers of the protocol.
pub(super) fn ui_response(body: Body) -> Response {
    let mut response = streamed(body, StreamFormat::EventStream);
    response.headers_mut().insert(VERSION, HeaderValue::from_static("v1"));
    response
}
