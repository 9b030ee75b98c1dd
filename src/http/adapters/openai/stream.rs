//! Completions as streams of chunks.

use bytes::Bytes;
use serde::Serialize;

use super::completion::{
    Chunk, ChunkChoice, CompletionHead, CompletionUsage, Delta, FinishReason, IndexedCall,
};
use super::ending::Ending;
use super::mapper::{Mapper, Piece};
use crate::bus::PreviewFrame;
use crate::domain::event::Frame;
use crate::domain::ids::SessionId;
use crate::http::adapters::event::{RunEvent, RunPreview};
use crate::http::error::OpenAiError;
use crate::http::stream::encoder::StreamEncoder;
use crate::http::stream::format::StreamFormat;

/// The frame after the last chunk.
const DONE: &[u8] = b"data: [DONE]\n\n";

/// The encoder of the stream of one run.
#[derive(Debug)]
pub(super) struct CompletionStream {
    mapper: Mapper,
    head: CompletionHead,
    includes_usage: bool,
    /// The number of calls so far.
    calls: usize,
}

impl CompletionStream {
    pub(super) fn new(mapper: Mapper, head: CompletionHead, includes_usage: bool) -> Self {
        Self { mapper, head, includes_usage, calls: 0 }
    }

    fn frames(&mut self, pieces: Vec<Piece>) -> Vec<u8> {
        let mut frames = Vec::new();
        for piece in pieces {
            let delta = match piece {
                Piece::Text(text) => Delta { content: Some(text), ..Delta::default() },
                Piece::Call(call) => {
                    let index = self.calls;
                    self.calls += 1;
                    Delta { tool_calls: vec![IndexedCall { index, call }], ..Delta::default() }
                }
                Piece::Progress(name) => {
                    // Names of tools have no line breaks.
                    frames.extend_from_slice(format!(": {name}\n\n").as_bytes());
                    continue;
                }
            };
            self.write(delta, None, &mut frames);
        }
        frames
    }

    fn write(&self, delta: Delta, finish_reason: Option<FinishReason>, frames: &mut Vec<u8>) {
        let choices = vec![ChunkChoice { index: 0, delta, finish_reason }];
        self.write_chunk(choices, None, frames);
    }

    fn write_chunk(
        &self,
        choices: Vec<ChunkChoice>,
        usage: Option<CompletionUsage>,
        frames: &mut Vec<u8>,
    ) {
        let object = "chat.completion.chunk";
        write_data(&Chunk { head: &self.head, object, choices, usage }, frames);
    }
}

impl StreamEncoder for CompletionStream {
    fn first(&mut self, _continues: bool) -> Bytes {
        let (role, content) = (Some("assistant"), Some(String::new()));
        let mut frames = Vec::new();
        self.write(Delta { role, content, ..Delta::default() }, None, &mut frames);
        frames.into()
    }

    fn event(&mut self, frame: &Frame) -> Bytes {
        let mut pieces = Vec::new();
        self.mapper.event(RunEvent::of(frame), &mut pieces);
        self.frames(pieces).into()
    }

    fn preview(&mut self, preview: &PreviewFrame) -> Bytes {
        let mut pieces = Vec::new();
        self.mapper.preview(RunPreview::of(preview), &mut pieces);
        self.frames(pieces).into()
    }

    fn deleted(&mut self, _session_id: SessionId) -> Bytes {
        self.mapper.deleted();
        Bytes::new()
    }

    fn end(&mut self) -> Bytes {
        let mut pieces = Vec::new();
        let ending = self.mapper.end(&mut pieces);
        let mut frames = self.frames(pieces);
        match ending {
            Ending::Finished(reason) => {
                self.write(Delta::default(), Some(reason), &mut frames);
                if self.includes_usage {
                    self.write_chunk(Vec::new(), Some(self.mapper.usage), &mut frames);
                }
            }
            Ending::Failed(message) => write_data(&OpenAiError::of_run(message), &mut frames),
        }
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

fn write_data(data: &impl Serialize, frames: &mut Vec<u8>) {
    frames.extend_from_slice(b"data: ");
    // Serializing strings and numbers to a vector cannot fail.
    let _ = serde_json::to_writer(&mut *frames, data);
    frames.extend_from_slice(b"\n\n");
}
