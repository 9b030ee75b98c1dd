//! Responses as one document.

use bytes::Bytes;

use super::mapper::ResponseMapper;
use super::resource::OpenAiResponse;
use crate::bus::PreviewFrame;
use crate::domain::event::Frame;
use crate::domain::ids::SessionId;
use crate::http::adapters::event::RunEvent;
use crate::http::adapters::openai::answer_slot::AnswerSlot;
use crate::http::adapters::openai::ending::Ending;
use crate::http::stream::encoder::StreamEncoder;

/// The encoder that collects one response. It writes no bytes.
#[derive(Debug)]
pub(super) struct ResponseCollector {
    pub(super) mapper: ResponseMapper,
    pub(super) response: OpenAiResponse,
    pub(super) slot: AnswerSlot<OpenAiResponse>,
}

impl StreamEncoder for ResponseCollector {
    fn first(&mut self, _continues: bool) -> Bytes {
        Bytes::new()
    }

    fn event(&mut self, frame: &Frame) -> Bytes {
        self.mapper.event(frame.seq, RunEvent::of(frame), &mut Vec::new());
        Bytes::new()
    }

    fn preview(&mut self, _preview: &PreviewFrame) -> Bytes {
        Bytes::new()
    }

    fn deleted(&mut self, _session_id: SessionId) -> Bytes {
        self.mapper.deleted();
        Bytes::new()
    }

    fn is_complete(&self) -> bool {
        self.mapper.is_complete
    }

    fn end(&mut self) -> Bytes {
        self.slot.put(match self.mapper.end(&mut Vec::new()) {
            Ending::Failed(message) => Err(message),
            ending @ Ending::Finished(_) => Ok(self.response.ended(&self.mapper, ending)),
        });
        Bytes::new()
    }

    fn keep_alive(&self) -> Bytes {
        Bytes::new()
    }

    fn last(&self) -> Bytes {
        Bytes::new()
    }
}
