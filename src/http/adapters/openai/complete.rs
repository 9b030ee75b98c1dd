//! Completions as one document.

use bytes::Bytes;

use super::answer_slot::AnswerSlot;
use super::completion::{
    ChatCompletion, CompletionChoice, CompletionHead, CompletionReply, ToolCall,
};
use super::ending::Ending;
use super::mapper::{Mapper, Piece};
use crate::bus::PreviewFrame;
use crate::domain::event::Frame;
use crate::domain::ids::SessionId;
use crate::http::adapters::event::RunEvent;
use crate::http::stream::encoder::StreamEncoder;

/// The encoder that collects the completion of one run. It writes no bytes.
#[derive(Debug)]
pub(super) struct CompletionCollector {
    mapper: Mapper,
    head: CompletionHead,
    text: String,
    tool_calls: Vec<ToolCall>,
    slot: AnswerSlot<ChatCompletion>,
}

impl CompletionCollector {
    pub(super) fn new(
        mapper: Mapper,
        head: CompletionHead,
        slot: AnswerSlot<ChatCompletion>,
    ) -> Self {
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

    fn completed(&mut self) -> Result<ChatCompletion, String> {
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
        self.slot.put(completed);
        Bytes::new()
    }

    fn keep_alive(&self) -> Bytes {
        Bytes::new()
    }

    fn last(&self) -> Bytes {
        Bytes::new()
    }
}
