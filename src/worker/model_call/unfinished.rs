//! Tries whose stream ended without a complete reply. The provider bills what they used, so it
//! counts like the usage of a reply.

use super::parameters::ReplyIds;
use super::{ModelCalls, RequestEnd, RequestInFlight};
use crate::domain::budget::Estimate;
use crate::domain::event::NewEvent;
use crate::domain::request::RequestRecord;
use crate::domain::usage::Usage;
use crate::model::{PartialReply, Reply, Request, estimated_tokens};
use crate::store::step::StepCommit;
use crate::worker::run::progress::Progress;
use crate::worker::run::state::RunState;
use crate::worker::run::stop_cause::StopCause;

/// The usage of the tries of a request that ended without a complete reply.
#[derive(Debug, Default)]
pub(super) struct UnfinishedTries {
    pub(super) usage: Usage,
    /// In micro-dollars; none if no price is known.
    pub(super) cost: Option<i64>,
}

impl UnfinishedTries {
    pub(super) fn is_empty(&self) -> bool {
        self.usage == Usage::default()
    }

    fn add(&mut self, usage: Usage, cost: Option<i64>) {
        self.usage += usage;
        self.cost = cost.map_or(self.cost, |cost| Some(self.cost.unwrap_or(0) + cost));
    }

    /// Adds the usage to the estimate of the request's next try.
    pub(super) fn added_to(&self, estimate: Estimate) -> Estimate {
        let cost = estimate.cost.map(|cost| cost.saturating_add(self.cost.unwrap_or(0)));
        Estimate { tokens: estimate.tokens.saturating_add(self.usage.total()), cost }
    }
}

/// The received part of a reply whose run was stopped.
#[derive(Debug)]
pub(in crate::worker) struct InterruptedReply {
    pub(in crate::worker) ids: ReplyIds,
    pub(in crate::worker) reply: PartialReply,
}

impl ModelCalls<'_> {
    /// Ends the try whose reply is being read: closes its connection, counts what it used, and
    /// returns the received part of the reply.
    pub(super) fn abandon_try(&mut self) -> Option<PartialReply> {
        let mut reply = self.streaming.take()?.abandon()?;
        if reply.usage.prompt() == 0 {
            // The server reports the input later, as all servers of Chat Completions do.
            let sent = self.in_flight.as_ref().map_or(0, |request| request.body_length);
            reply.usage.input_tokens = estimated_tokens(sent);
        }
        let price = self.run.settings().price;
        self.unfinished.add(reply.usage, price.map(|price| price.cost(&reply.usage)));
        Some(reply)
    }

    /// Ends the try because the run is stopped, and keeps the received part of a reply that has
    /// readers.
    pub(super) fn interrupt_try(&mut self, ids: ReplyIds) {
        let has_readers = self.in_flight.as_ref().is_some_and(RequestInFlight::is_answer);
        let reply = self.abandon_try().filter(|_| has_readers);
        self.interrupted = reply.map(|reply| InterruptedReply { ids, reply });
    }

    /// The received part of the reply during which the run was stopped.
    pub(in crate::worker) fn take_interrupted(&mut self) -> Option<InterruptedReply> {
        self.interrupted.take()
    }

    /// The usage of the request in flight, which this reply answers.
    pub(in crate::worker) fn usage_of(&self, reply: &Reply) -> Usage {
        let mut usage = self.unfinished.usage;
        usage += reply.usage;
        usage
    }

    /// The tries of the request that ends here, and of a reply that was received and not recorded.
    pub(super) fn take_unfinished(&mut self) -> UnfinishedTries {
        self.abandon_try();
        let mut tries = std::mem::take(&mut self.unfinished);
        if let Some(usage) = self.unrecorded.take() {
            tries.add(usage, self.run.settings().price.map(|price| price.cost(&usage)));
        }
        tries
    }

    /// The events that report the end of a request without a reply.
    pub(in crate::worker) fn failure_events(
        &mut self,
        request: Option<&RequestRecord>,
    ) -> Vec<NewEvent> {
        let mut events = Vec::new();
        let question = request.and_then(|request| request.form.question.as_ref());
        if let Some(question) = question {
            // Sampling requests are announced when they end.
            self.announce_sampling(question.tool_use_id.clone(), &mut events);
        }
        let duration_ms = request.map_or(0, |request| request.duration_ms);
        events.extend(self.end_event(&RequestEnd { duration_ms, ..RequestEnd::default() }));
        events
    }

    /// Reserves the next try of a request in addition to what its earlier tries used.
    pub(super) async fn reserve_again(
        &self,
        state: &RunState<'_>,
        request: &Request,
    ) -> Result<(), StopCause> {
        let form = self.in_flight.as_ref().map(|request| &request.form);
        match form.filter(|_| !self.unfinished.is_empty()) {
            Some(form) => self.reserve(&state.writer, request, form).await,
            None => Ok(()),
        }
    }

    /// Adds the events that report what a request used, if it used something and is to be replaced by
    /// another request.
    pub(in crate::worker) fn report_replaced(
        &mut self,
        progress: &mut Progress<'_>,
        events: &mut Vec<NewEvent>,
    ) {
        if self.unreported.usage != Usage::default() {
            events.extend(self.end_event(&RequestEnd::default()));
            self.announce(progress, events);
        }
    }

    /// Stores what the request in flight used, before the run is released to another worker, which
    /// sends a request of its own.
    pub(in crate::worker) async fn record_stopped(&mut self, state: &mut RunState<'_>) {
        let request = self.record_failure(&mut state.progress, None);
        let Some(request) = request.filter(|request| request.usage != Usage::default()) else {
            return;
        };
        let events = self.failure_events(Some(&request));
        let (usage, request) = (request.usage, Some(&request));
        let step =
            StepCommit { events: &events, request, is_progress: false, ..StepCommit::default() };
        if state.writer.store(&[], &step).await.is_err() {
            self.log_lost(usage);
        }
    }

    /// Drops the request in flight, which was sent with a step that was not committed: neither the
    /// messages that it contains nor its announcement are stored. What it used is logged.
    pub(in crate::worker) fn discard_request(&mut self) {
        self.log_lost_usage();
        self.in_flight = None;
        self.start_event = None;
        self.interrupted = None;
        self.tries.clear();
    }

    /// Logs what the request in flight used: without the lease it cannot be stored.
    pub(in crate::worker) fn log_lost_usage(&mut self) {
        let UnfinishedTries { usage, .. } = self.take_unfinished();
        if usage != Usage::default() {
            self.log_lost(usage);
        }
    }

    fn log_lost(&self, usage: Usage) {
        tracing::warn!(
            run.id = %self.run.run_id(),
            usage.prompt_tokens = usage.prompt(),
            usage.output_tokens = usage.output_tokens,
            "usage of a stopped model request is lost"
        );
    }
}
