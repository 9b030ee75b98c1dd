//! Requests to the model: budget, body, retries, record.

mod budget;
mod deadline;
mod fallback;
mod in_flight;
pub(in crate::worker) mod model_try;
pub(in crate::worker) mod parameters;
mod prefix_report;
mod previews;
mod refused_content;
pub(in crate::worker) mod reply_events;
mod request_record;
mod retry;
mod send;
mod silent_answer;
mod spans;
pub(in crate::worker) mod truncated_call;
mod unfinished;

use std::mem::take;

use serde_json::value::RawValue;

pub(in crate::worker) use in_flight::RequestInFlight;
pub(in crate::worker) use unfinished::InterruptedReply;
use unfinished::UnfinishedTries;

use crate::domain::budget::MeasuredRequest;
use crate::domain::claim::Claimed;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::history_repair::HistoryRepair;
use crate::domain::ids::EventId;
use crate::domain::model::Effort;
use crate::domain::model_try::ModelTry;
use crate::domain::prefix::{Hash, PrefixChange};
use crate::domain::usage::Usage;
use crate::model::{Reply, ReplyStream};
use crate::worker::run::context::RunContext;
use crate::worker::run::progress::Progress;
use crate::worker::transcript::HeadHashes;

/// The requests of a run to the model, one at a time.
#[derive(Debug)]
pub(in crate::worker) struct ModelCalls<'a> {
    run: &'a RunContext<'a>,
    /// The hashes of what all requests of the run begin with.
    head_hashes: HeadHashes,
    /// The hash of the tools of the last request, with the found ones.
    sent_tools: Hash,
    /// The first difference between the request in flight and the request before it.
    prefix_changed: Option<PrefixChange>,
    /// The repairs of the history that the request in flight is the first to contain.
    repairs: Vec<HistoryRepair>,
    /// The event that announced the request in flight.
    start_event: Option<EventId>,
    in_flight: Option<RequestInFlight>,
    /// The tries of the request in flight.
    tries: Vec<ModelTry>,
    /// The reply that is being read.
    streaming: Option<ReplyStream>,
    /// The tries of the request in flight that ended without a complete reply.
    unfinished: UnfinishedTries,
    /// The usage of the reply to the request in flight.
    unrecorded: Option<Usage>,
    /// What was received of the reply during which the run was stopped.
    interrupted: Option<InterruptedReply>,
    /// What recorded requests used that no event has reported yet.
    unreported: UsageReport,
    /// The size of the last request, in bytes and in tokens.
    measured: Option<MeasuredRequest>,
}

/// What requests used.
#[derive(Debug, Default)]
struct UsageReport {
    usage: Usage,
    is_estimated: bool,
}

/// The end of a request to the model. Without a stop reason the request failed.
#[derive(Debug, Default)]
pub(in crate::worker) struct RequestEnd<'a> {
    pub(in crate::worker) stop: Option<&'a str>,
    pub(in crate::worker) duration_ms: i64,
    /// The context edits that the model's server applied.
    pub(in crate::worker) applied_edits: Option<Box<RawValue>>,
}

impl<'a> RequestEnd<'a> {
    /// The end of a request with a reply.
    pub(in crate::worker) fn of(reply: &'a Reply) -> Self {
        let (stop, applied_edits) = (Some(reply.stop.as_str()), reply.applied_edits.clone());
        Self { stop, duration_ms: 0, applied_edits }
    }
}

impl<'a> ModelCalls<'a> {
    pub(in crate::worker) fn new(run: &'a RunContext<'a>) -> Self {
        let head_hashes = head_hashes(&run.claim);
        Self {
            run,
            sent_tools: head_hashes.tools,
            head_hashes,
            prefix_changed: None,
            repairs: Vec::new(),
            start_event: None,
            in_flight: None,
            tries: Vec::new(),
            streaming: None,
            unfinished: UnfinishedTries::default(),
            unrecorded: None,
            interrupted: None,
            unreported: UsageReport::default(),
            measured: None,
        }
    }

    /// Continues with a request that was announced when the message was accepted.
    pub(in crate::worker) fn continue_request(&mut self, start_event: EventId) {
        self.start_event = Some(start_event);
    }

    /// Adds the event that announces the next request, if the loop asks the model next.
    pub(in crate::worker) fn announce(
        &mut self,
        progress: &mut Progress<'_>,
        events: &mut Vec<NewEvent>,
    ) {
        if progress.asks_model_next() {
            let id = EventId::new();
            self.start_event = Some(id);
            events.push(self.start_event(id, None));
        }
    }

    /// Adds the event that announces a sampling request of a tool.
    pub(in crate::worker) fn announce_sampling(
        &mut self,
        tool_use_id: String,
        events: &mut Vec<NewEvent>,
    ) {
        let id = EventId::new();
        self.start_event = Some(id);
        events.push(self.start_event(id, Some(tool_use_id)));
    }

    fn start_event(&self, id: EventId, tool_use_id: Option<String>) -> NewEvent {
        let model = self.run.settings().model.clone();
        let body = EventBody::ModelRequestStart { model, tool_use_id };
        NewEvent::with_id(id.to_string(), &body)
    }

    /// The event that reports the end of the announced request, if there is one, once the request is
    /// recorded.
    pub(in crate::worker) fn end_event(&mut self, end: &RequestEnd<'_>) -> Option<NewEvent> {
        let model_request_start_id = self.start_event.take()?;
        let UsageReport { usage, is_estimated } = take(&mut self.unreported);
        Some(NewEvent::new(&EventBody::ModelRequestEnd {
            model_request_start_id,
            model_usage: usage,
            usage_estimated: is_estimated,
            stop_reason: end.stop.map(str::to_owned),
            is_error: end.stop.is_none(),
            duration_ms: end.duration_ms,
            prefix_changed: self.prefix_changed.take(),
            history_repairs: take(&mut self.repairs),
            applied_edits: end.applied_edits.clone(),
        }))
    }

    /// Sets the request in flight.
    pub(in crate::worker) fn begin(&mut self, request: RequestInFlight) {
        self.in_flight = Some(request);
        self.interrupted = None;
    }

    /// True if the request in flight asks for a summary. It has no reader, and the run can continue
    /// without it.
    fn is_summary(&self) -> bool {
        self.in_flight.as_ref().is_some_and(RequestInFlight::is_summary)
    }
}

/// The hashes of what all requests of a run begin with.
fn head_hashes(run: &Claimed) -> HeadHashes {
    let tools_of_run = run.options.tools.as_deref();
    let tools = [Some(run.settings.tools.as_ref()), tools_of_run];
    let thinking = run.settings.thinking.as_deref().map_or("", RawValue::get);
    HeadHashes {
        tools: Hash::of(tools.into_iter().flatten().map(RawValue::get)),
        system: Hash::of([run.settings.system.json().get()]),
        choice: Hash::of([""]),
        model: Hash::of([run.settings.model.as_str()]),
        thinking: Hash::of([thinking]),
        effort: Hash::of([run.settings.model_options.effort.map_or("", Effort::as_str)]),
    }
}
