//! Questions that tools ask the model while they run: requests of the run like any other.

use std::pin::pin;
use std::time::Instant;

use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::EventId;
use crate::domain::question::Question;
use crate::domain::request::{RequestForm, RequestRecord};
use crate::domain::run::ModelStop;
use crate::domain::tool::ToolChoice;
use crate::model::{Messages, ModelError, Reply, Request};
use crate::store::step::StepCommit;
use crate::tools::{Inquiry, ToolError};
use crate::worker::model_call::previews::ReplyIds;
use crate::worker::model_call::request_record::Asked;
use crate::worker::run::driver::{Driver, RequestEnd, empty, millis};
use crate::worker::run::stop_cause::Halt;

impl Driver<'_> {
    /// Waits for calls, unless the run is told to stop, and puts to the model what they ask
    /// meanwhile, one question after the other: a run has one request under way.
    pub(in crate::worker) async fn attend<T>(
        &mut self,
        calls: impl Future<Output = T>,
    ) -> Result<T, Halt> {
        let signals = self.signals.clone();
        let mut calls = pin!(signals.unless_stopped(calls));
        loop {
            let inquiry = tokio::select! {
                biased;
                done = &mut calls => return done,
                Some(inquiry) = self.inquiries.recv() => inquiry,
            };
            let mut inquiring = Box::pin(self.inquire(inquiry));
            tokio::select! {
                biased;
                asked = &mut inquiring => asked?,
                // Another call may still wait for the answer.
                done = &mut calls => {
                    let done = done?;
                    inquiring.await?;
                    return Ok(done);
                }
            }
        }
    }

    /// Puts a question to the model. What it used is stored before the tool reads the answer.
    async fn inquire(&mut self, inquiry: Inquiry) -> Result<(), Halt> {
        let Inquiry { question, mut answer } = inquiry;
        if answer.is_closed() {
            return Ok(());
        }
        let (request, form) = self.inquiry_request(&question)?;
        match self.reserve(&request, &form).await {
            Err(Halt::Budget(exceeded)) => {
                let refused = ToolError::Failed(format!("the model is not asked: {exceeded}"));
                let _ = answer.send(Err(refused));
                return Ok(());
            }
            reserved => reserved?,
        }
        self.asked = Some(Asked::new(&request, form, 0));
        let started = Instant::now();
        let ended = tokio::select! {
            biased;
            // The tool's time is over.
            () = answer.closed() => None,
            ended = self.request(request, ReplyIds::new()) => Some(ended),
        };
        let (record, said, reply) = match ended {
            None => (self.unanswered(None), None, None),
            Some(Err(Halt::Model(error))) => {
                let record = self.unanswered(Some(&error.for_clients()));
                (record, Some(Err(unanswered(&error))), None)
            }
            Some(ended) => {
                let reply = ended?;
                self.agent.spend(reply.usage);
                (self.answered(&reply), Some(said(&reply)), Some(reply))
            }
        };
        let end = reply.as_ref().map(RequestEnd::of).unwrap_or_default();
        let end = RequestEnd { duration_ms: millis(started), ..end };
        self.note_inquiry(&question, record, end).await?;
        if let Some(said) = said {
            // A tool that has given up meanwhile hears nothing.
            let _ = answer.send(said);
        }
        Ok(())
    }

    fn inquiry_request(&self, question: &Question) -> Result<(Request, RequestForm), Halt> {
        let model = &self.worker.parts.model;
        let head = model.head(&self.run.settings.for_question(question), None, None)?;
        let text = question.messages();
        let messages = Messages { text: &text, far_mark: None, is_compacted: false };
        let form = RequestForm {
            tool_choice: ToolChoice::Auto,
            prompt_cache: None,
            far_mark: None,
            sent_changes: 0,
            compacted: None,
            summary: false,
            question: Some(question.clone()),
            chat_completions: model.dialect(),
            max_tokens: Some(question.max_tokens),
        };
        Ok((head.request(messages, &ToolChoice::Auto), form))
    }

    /// Stores that a question was put, and what it used.
    async fn note_inquiry(
        &mut self,
        question: &Question,
        record: Option<RequestRecord>,
        end: RequestEnd<'_>,
    ) -> Result<(), Halt> {
        let (id, model) = (EventId::new(), self.run.settings.model.clone());
        let tool_use_id = Some(question.tool_use_id.clone());
        let start = EventBody::ModelRequestStart { model, tool_use_id };
        let mut events = vec![NewEvent::with_id(id.to_string(), &start)];
        self.span = Some(id);
        events.extend(self.end_request(&end));
        let usage = end.stop.map(|_| end.usage);
        let is_progress = usage.is_some();
        let request = record.as_ref();
        let step = StepCommit { events: &events, usage, request, is_progress, ..empty() };
        self.store(&[], &step).await
    }
}

/// What a tool reads of a reply.
fn said(reply: &Reply) -> Result<String, ToolError> {
    let failed = |text: &str| Err(ToolError::Failed(text.to_owned()));
    let text = reply.content.joined_text().map_err(|error| ToolError::Failed(error.to_string()))?;
    if reply.stop == ModelStop::Refusal {
        return failed("the model declined to answer");
    }
    if text.trim().is_empty() {
        return failed("the model gave an empty answer");
    }
    Ok(text)
}

/// What a tool reads where there was no reply.
fn unanswered(error: &ModelError) -> ToolError {
    ToolError::Network(format!("fetch failed: {}", error.for_clients().message))
}
