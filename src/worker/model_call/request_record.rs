//! The record of a request: enough to inspect it later and to rebuild its body.

use std::mem::take;

use super::{ModelCalls, RequestInFlight};
use crate::domain::budget::MeasuredRequest;
use crate::domain::outcome::RunError;
use crate::domain::price::Price;
use crate::domain::request::{RequestForm, RequestRecord, hexadecimal};
use crate::domain::tool::ToolChoice;
use crate::domain::usage::Usage;
use crate::model::{Messages, Reply};
use crate::worker::run::progress::Progress;
use crate::worker::run::step_writer::StepWriter;
use crate::worker::time::millis_since;

impl ModelCalls<'_> {
    /// The parts of a request that vary, from which its body can be rebuilt.
    pub(in crate::worker) fn form(
        &self,
        writer: &StepWriter<'_>,
        messages: Messages<'_>,
        choice: &ToolChoice,
        max_tokens: Option<u32>,
    ) -> RequestForm {
        let (services, view) = (self.run.services, writer.transcript.view());
        RequestForm {
            tool_choice: choice.clone(),
            prompt_cache: services.prompt_cache,
            far_breakpoint: messages.far_breakpoint,
            sent_changes: view.changes.len(),
            compacted: view.compaction.as_ref().map(|compaction| compaction.up_to),
            summary: false,
            question: None,
            title: None,
            chat_completions: self.run.model().server.client.dialect(),
            platform: self.run.model().server.client.platform(),
            responses: self.run.model().server.client.is_responses(),
            max_tokens,
            model_settings: self.run.model_settings().cloned().map(Box::new),
            container: messages.container.map(str::to_owned),
            fallback: self.run.model().fallback_index(),
            unread: 0,
        }
    }

    /// Adds the usage of a reply to that of the run, and returns the record of its request.
    pub(in crate::worker) fn record_reply(
        &mut self,
        progress: &mut Progress<'_>,
        reply: &Reply,
    ) -> Option<RequestRecord> {
        // A summary within a reply is a step of its own with a prompt of its own.
        let summary = reply.compaction.map(|summary| summary.usage).unwrap_or_default();
        let cost = |price: Price| price.cost(&(reply.usage - summary)) + price.cost(&summary);
        let cost = self.run.settings().price.map(cost);
        self.unrecorded = None;
        let tries = self.take_unfinished();
        let cost = cost.map(|cost| cost.saturating_add(tries.cost.unwrap_or(0)));
        let mut usage = tries.usage;
        usage += reply.usage;
        let usage_estimated = !tries.is_empty();
        self.report(usage, usage_estimated);
        progress.count_request(usage, cost);
        let record = self.take_record()?;
        let counted = reply.compaction.and_then(|summary| summary.tokens_after);
        let tokens = counted.unwrap_or_else(|| reply.usage.prompt());
        if record.form.question.is_none() {
            let bytes = record.body_length.saturating_sub(record.form.unread);
            self.measured = Some(MeasuredRequest { bytes, tokens });
        }
        let stop_reason = Some(reply.stop.as_str().to_owned());
        Some(RequestRecord { stop_reason, usage, usage_estimated, cost, ..record })
    }

    /// Returns the record of the request in flight, if there is one, when it ends without a reply,
    /// and adds what it used to the usage of the run.
    pub(in crate::worker) fn record_failure(
        &mut self,
        progress: &mut Progress<'_>,
        error: Option<&RunError>,
    ) -> Option<RequestRecord> {
        let tries = self.take_unfinished();
        let record = self.take_record()?;
        let (usage, cost) = (tries.usage, tries.cost.filter(|_| !tries.is_empty()));
        progress.count_unanswered(usage, cost);
        if !record.form.summary {
            progress.agent.add_usage(usage);
        }
        let usage_estimated = !tries.is_empty();
        self.report(usage, usage_estimated);
        Some(RequestRecord { error: error.cloned(), usage, usage_estimated, cost, ..record })
    }

    /// Adds the usage of a request to what the next event reports.
    fn report(&mut self, usage: Usage, is_estimated: bool) {
        self.unreported.usage += usage;
        self.unreported.is_estimated |= is_estimated;
    }

    fn take_record(&mut self) -> Option<RequestRecord> {
        let request = self.in_flight.take()?;
        let RequestInFlight { body_hash, body_length, message_seq, form, prefix, started } =
            request;
        Some(RequestRecord {
            model: self.run.settings().model.clone(),
            message_seq,
            form,
            body_hash: hexadecimal(&body_hash),
            body_length: i64::try_from(body_length).unwrap_or(i64::MAX),
            prefix,
            attempts: take(&mut self.tries),
            stop_reason: None,
            error: None,
            usage: Usage::default(),
            usage_estimated: false,
            cost: None,
            duration_ms: millis_since(started),
        })
    }
}
