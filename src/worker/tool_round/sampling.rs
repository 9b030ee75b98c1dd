//! Sampling: requests to the model that tools make while they run. They are requests of the run, with
//! its budget, its limits and its records.

use std::pin::pin;
use std::time::Instant;

use tokio::sync::mpsc;

use crate::domain::request::{RequestForm, RequestRecord};
use crate::domain::sampling::SamplingRequest;
use crate::domain::stop_reason::ModelStop;
use crate::domain::tool::ToolChoice;
use crate::model::{Messages, ModelError, Reply, Request};
use crate::store::step::StepCommit;
use crate::tools::{SamplingCall, ToolError};
use crate::worker::model_call::parameters::ReplyIds;
use crate::worker::model_call::{ModelCalls, RequestEnd, RequestInFlight};
use crate::worker::run::context::RunContext;
use crate::worker::run::state::RunState;
use crate::worker::run::stop_cause::StopCause;
use crate::worker::time::millis_since;

/// The sampling requests of the calls of a run.
#[derive(Debug)]
pub(super) struct Sampling {
    requests: mpsc::Receiver<SamplingCall>,
}

/// The result of a sampling request.
struct Sampled {
    record: Option<RequestRecord>,
    /// The answer to the tool, if it still waits.
    answer: Option<Result<String, ToolError>>,
    reply: Option<Reply>,
}

impl Sampling {
    pub(super) fn new(requests: mpsc::Receiver<SamplingCall>) -> Self {
        Self { requests }
    }

    /// Waits for calls, unless the run is stopped, and serves their sampling requests meanwhile. The
    /// requests are served one after another, because a run has one request in flight.
    pub(super) async fn serve_during<T>(
        &mut self,
        state: &mut RunState<'_>,
        model: &mut ModelCalls<'_>,
        calls: impl Future<Output = T>,
    ) -> Result<T, StopCause> {
        let run = state.run;
        let mut calls = pin!(run.signals.unless_stopped(calls));
        loop {
            let request = tokio::select! {
                biased;
                done = &mut calls => return done,
                Some(request) = self.requests.recv() => request,
            };
            let mut serving = Box::pin(serve(state, model, request));
            tokio::select! {
                biased;
                served = &mut serving => served?,
                // Another call may still wait for the answer.
                done = &mut calls => {
                    let done = done?;
                    serving.await?;
                    return Ok(done);
                }
            }
        }
    }
}

/// Sends a sampling request. Its usage is stored before the tool reads the answer.
async fn serve(
    state: &mut RunState<'_>,
    model: &mut ModelCalls<'_>,
    call: SamplingCall,
) -> Result<(), StopCause> {
    let SamplingCall { question, mut answer } = call;
    if answer.is_closed() {
        return Ok(());
    }
    let (request, form) = sampling_request(state.run, &question)?;
    match model.reserve(&state.writer, &request, &form).await {
        Err(StopCause::Budget(exceeded)) => {
            let refused =
                ToolError::Failed(format!("no request was sent to the model: {exceeded}"));
            let _ = answer.send(Err(refused));
            return Ok(());
        }
        reserved => reserved?,
    }
    model.begin(RequestInFlight::new(&request, form, 0));
    let started = Instant::now();
    let ended = tokio::select! {
        biased;
        // The tool has stopped waiting.
        () = answer.closed() => None,
        ended = model.request(state, request, ReplyIds::new()) => Some(ended),
    };
    let sampled = match ended {
        None => {
            let record = model.record_failure(&mut state.progress, None);
            Sampled { record, answer: None, reply: None }
        }
        Some(Err(StopCause::Model(error))) => {
            let error_for_clients = error.for_clients();
            let record = model.record_failure(&mut state.progress, Some(&error_for_clients));
            Sampled { record, answer: Some(Err(failure(&error))), reply: None }
        }
        Some(ended) => {
            let reply = ended?;
            state.progress.agent.add_usage(model.usage_of(&reply));
            let record = model.record_reply(&mut state.progress, &reply);
            Sampled { record, answer: Some(answer_text(&reply)), reply: Some(reply) }
        }
    };
    let end = sampled.reply.as_ref().map(RequestEnd::of).unwrap_or_default();
    let end = RequestEnd { duration_ms: millis_since(started), ..end };
    store_record(state, model, &question, sampled.record.as_ref(), end).await?;
    if let Some(text) = sampled.answer {
        // A tool that has stopped waiting meanwhile receives nothing.
        let _ = answer.send(text);
    }
    Ok(())
}

fn sampling_request(
    run: &RunContext<'_>,
    question: &SamplingRequest,
) -> Result<(Request, RequestForm), StopCause> {
    let model = &run.model().server.client;
    let prompt = question.prompt();
    let head = model.head(&run.settings().for_prompt(prompt), None, None)?;
    let text = prompt.messages();
    let messages =
        Messages { text: &text, far_breakpoint: None, is_compacted: false, container: None };
    let form = RequestForm {
        tool_choice: ToolChoice::AUTO,
        prompt_cache: None,
        far_breakpoint: None,
        sent_changes: 0,
        compacted: None,
        summary: false,
        question: Some(question.clone()),
        title: None,
        chat_completions: model.dialect(),
        platform: model.platform(),
        responses: model.is_responses(),
        max_tokens: Some(question.max_tokens),
        model_settings: run.model_settings().cloned().map(Box::new),
        container: None,
        fallback: run.model().fallback_index(),
        unread: 0,
    };
    Ok((head.request(messages, &ToolChoice::AUTO), form))
}

/// Stores that a sampling request was made, and its usage.
async fn store_record(
    state: &mut RunState<'_>,
    model: &mut ModelCalls<'_>,
    question: &SamplingRequest,
    record: Option<&RequestRecord>,
    end: RequestEnd<'_>,
) -> Result<(), StopCause> {
    let mut events = Vec::new();
    model.announce_sampling(question.tool_use_id.clone(), &mut events);
    events.extend(model.end_event(&end));
    let answered = record.filter(|record| record.stop_reason.is_some());
    let usage = answered.map(|record| record.usage);
    let is_progress = usage.is_some();
    let step =
        StepCommit { events: &events, usage, request: record, is_progress, ..Default::default() };
    state.writer.store(&[], &step).await
}

/// The text of a reply as a tool reads it.
fn answer_text(reply: &Reply) -> Result<String, ToolError> {
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

/// The failure of a request as a tool reads it.
fn failure(error: &ModelError) -> ToolError {
    ToolError::Network(format!("fetch failed: {}", error.for_clients().message))
}
