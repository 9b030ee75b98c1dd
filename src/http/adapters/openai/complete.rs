//! Completions as one document.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt as _;

use super::completion::{
    ChatCompletion, CompletionChoice, CompletionHead, CompletionReply, ToolCall,
};
use super::mapper::{Ending, Mapper, Piece};
use crate::bus::PreviewFrame;
use crate::domain::event::Frame;
use crate::domain::ids::SessionId;
use crate::http::adapters::event::RunEvent;
use crate::http::error::ApiError;
use crate::http::server::detached::disconnected;
use crate::http::stream::encoder::StreamEncoder;
use crate::service::Error;

/// The error for a client that does not read it.
const CLOSED: &str = "The client has closed the connection.";

/// A completion, or the text of its error.
pub(super) type Completed = Result<ChatCompletion, String>;

/// The completion of a stream, once it has ended.
#[derive(Debug, Clone, Default)]
pub(super) struct CompletionSlot(Arc<Mutex<Option<Completed>>>);

impl CompletionSlot {
    /// Reads a body up to its end, and returns the completion. Returns at once if the client has closed
    /// the connection; the body is dropped then, and the run is cancelled.
    pub(super) async fn read(self, body: Body) -> Result<Completed, ApiError> {
        let mut data = body.into_data_stream();
        loop {
            let item = tokio::select! {
                item = data.next() => item,
                () = disconnected() => return Ok(Err(CLOSED.to_owned())),
            };
            match item {
                Some(Ok(_)) => {}
                Some(Err(_)) => return Err(Error::Draining.into()),
                None => break,
            }
        }
        let completed = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        completed.ok_or_else(|| ApiError::Internal("the stream of a completion ended early".into()))
    }
}

/// The encoder that collects the completion of one run. It writes no bytes.
#[derive(Debug)]
pub(super) struct CompletionCollector {
    mapper: Mapper,
    head: CompletionHead,
    text: String,
    tool_calls: Vec<ToolCall>,
    slot: CompletionSlot,
}

impl CompletionCollector {
    pub(super) fn new(mapper: Mapper, head: CompletionHead, slot: CompletionSlot) -> Self {
        Self { mapper, head, text: String::new(), tool_calls: Vec::new(), slot }
    }

    fn take(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.text.push_str(&text),
                Piece::Call(call) => self.tool_calls.push(call),
                Piece::Progress(_) => {}
            }
        }
    }

    fn completed(&mut self) -> Completed {
        let mut pieces = Vec::new();
        let ending = self.mapper.end(&mut pieces);
        self.take(pieces);
        let finish_reason = match ending {
            Ending::Finished(reason) => reason,
            Ending::Failed(message) => return Err(message),
        };
        let content = Some(std::mem::take(&mut self.text)).filter(|text| !text.is_empty());
        let tool_calls = std::mem::take(&mut self.tool_calls);
        let message = CompletionReply { role: "assistant", content, refusal: None, tool_calls };
        let choice = CompletionChoice { index: 0, message, finish_reason, logprobs: None };
        Ok(ChatCompletion {
            head: self.head.clone(),
            object: "chat.completion",
            choices: [choice],
            usage: self.mapper.usage,
        })
    }
}

impl StreamEncoder for CompletionCollector {
    fn first(&mut self, _continues: bool) -> Bytes {
        Bytes::new()
    }

    fn event(&mut self, frame: &Frame) -> Bytes {
        let mut pieces = Vec::new();
        self.mapper.event(RunEvent::of(frame), &mut pieces);
        self.take(pieces);
        Bytes::new()
    }

    fn preview(&mut self, _preview: &PreviewFrame) -> Bytes {
        Bytes::new()
    }

    fn deleted(&mut self, _session_id: SessionId) -> Bytes {
        self.mapper.deleted();
        Bytes::new()
    }

    fn end(&mut self) -> Bytes {
        let completed = self.completed();
        *self.slot.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(completed);
        Bytes::new()
    }

    fn keep_alive(&self) -> Bytes {
        Bytes::new()
    }

    fn last(&self) -> Bytes {
        Bytes::new()
    }
}
