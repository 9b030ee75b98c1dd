//! What is recorded of a request: enough to look at later, and to make its body again.

use std::mem::take;
use std::time::Instant;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::domain::budget::Measured;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::prefix::PrefixHashes;
use crate::domain::price::Price;
use crate::domain::request::{RequestForm, RequestRecord, hexadecimal};
use crate::domain::run::RunError;
use crate::domain::tool::ToolChoice;
use crate::domain::usage::Usage;
use crate::model::{Messages, Reply, Request};
use crate::worker::run::driver::{Driver, millis};

/// A request under way.
#[derive(Debug)]
pub(in crate::worker) struct Asked {
    body: Bytes,
    message_seq: i32,
    form: RequestForm,
    /// None where no later request begins so.
    prefix: Option<PrefixHashes>,
    started: Instant,
}

impl Asked {
    /// What is known of a request with the messages up to this one, before it is sent.
    pub(in crate::worker) fn new(request: &Request, form: RequestForm, message_seq: i32) -> Self {
        let body = request.body.clone();
        Self { body, message_seq, form, prefix: None, started: Instant::now() }
    }

    /// Whether it asks for a summary.
    pub(in crate::worker) fn is_for_summary(&self) -> bool {
        self.form.summary
    }

    /// Whether its reply is one that readers see while it comes.
    pub(in crate::worker) fn is_shown(&self) -> bool {
        !self.form.summary && self.form.question.is_none()
    }
}

impl Driver<'_> {
    /// What varies in a request, so that its body can be made again.
    pub(in crate::worker) fn form(
        &self,
        messages: Messages<'_>,
        choice: &ToolChoice,
        max_tokens: Option<u32>,
    ) -> RequestForm {
        RequestForm {
            tool_choice: choice.clone(),
            prompt_cache: self.worker.parts.prompt_cache,
            far_mark: messages.far_mark,
            sent_changes: self.transcript.view().changes.len(),
            compacted: self.transcript.view().compaction.as_ref().map(|it| it.up_to),
            summary: false,
            question: None,
            chat_completions: self.worker.parts.model.dialect(),
            max_tokens,
        }
    }

    /// What is known of a request before it is sent.
    pub(in crate::worker) fn asking(
        &self,
        request: &Request,
        form: RequestForm,
        prefix: PrefixHashes,
    ) -> Asked {
        let prefix = Some(prefix);
        Asked { prefix, ..Asked::new(request, form, self.last_message_seq()) }
    }

    /// Takes in what the reply says of the request under way.
    pub(in crate::worker) fn answered(&mut self, reply: &Reply) -> Option<RequestRecord> {
        // A summary within a reply is a step of its own, with a prompt of its own.
        let summary = reply.summed_up.map(|told| told.usage).unwrap_or_default();
        let cost = |price: Price| price.cost(&(reply.usage - summary)) + price.cost(&summary);
        let cost = self.run.settings.price.map(cost);
        self.spent.requests += 1;
        self.spent.usage += reply.usage;
        if let Some(cost) = cost {
            self.spent.cost = Some(self.spent.cost.unwrap_or(0).saturating_add(cost));
        }
        let record = self.ended()?;
        let counted = reply.summed_up.and_then(|told| told.tokens_after);
        let tokens = counted.unwrap_or_else(|| reply.usage.prompt());
        if record.form.question.is_none() {
            self.measured = Some(Measured { bytes: record.body_length, tokens });
        }
        let stop_reason = Some(reply.stop.as_str().to_owned());
        Some(RequestRecord { stop_reason, usage: reply.usage, cost, ..record })
    }

    /// What there is to say of the request under way, if there is one, when the run ends without
    /// its reply.
    pub(in crate::worker) fn unanswered(
        &mut self,
        error: Option<&RunError>,
    ) -> Option<RequestRecord> {
        let record = self.ended()?;
        Some(RequestRecord { error: error.cloned(), ..record })
    }

    /// The event that tells what the run used.
    pub(in crate::worker) fn told_usage(&self) -> NewEvent {
        NewEvent::new(&EventBody::Usage { usage: self.spent.usage, cost: self.spent.cost })
    }

    /// Only now, while nobody waits for a first word, the body is hashed.
    fn ended(&mut self) -> Option<RequestRecord> {
        let Asked { body, message_seq, form, prefix, started } = self.asked.take()?;
        Some(RequestRecord {
            model: self.run.settings.model.clone(),
            message_seq,
            form,
            body_hash: hexadecimal(&Sha256::digest(&body)),
            body_length: i64::try_from(body.len()).unwrap_or(i64::MAX),
            prefix,
            attempts: take(&mut self.attempts),
            stop_reason: None,
            error: None,
            usage: Usage::default(),
            cost: None,
            duration_ms: millis(started),
        })
    }
}
