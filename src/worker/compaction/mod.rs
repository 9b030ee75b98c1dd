//! Before a run, a history that nears the model's window is summed up by the model's side. What is
//! stored stays as it is; what is sent begins with the summary from then on.
//!
//! This happens before a run's first request only, so that what a run does is never cut short while
//! it runs. A summary that cannot be had fails no run: it goes on with the whole history.

mod earlier_messages;

use std::time::{Duration, Instant};

use crate::agent::Step;
use crate::domain::context::Compaction;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::note::Note;
use crate::domain::request::{RequestForm, RequestRecord};
use crate::domain::run::ModelStop;
use crate::domain::sent::SentView;
use crate::domain::tool::ToolChoice;
use crate::faults::{self, Point};
use crate::metrics::CompactionOutcome;
use crate::model::{Head, Messages, Reply, Request};
use crate::store::step::StepCommit;
use crate::worker::model_call::previews::ReplyIds;
use crate::worker::model_call::request_record::Asked;
use crate::worker::run::driver::{Driver, RequestEnd, empty, millis};
use crate::worker::run::stop_cause::Halt;
use crate::worker::transcript::{sent_before, sent_messages};
use earlier_messages::{Past, Sizes};

/// What became of a request for a summary.
enum Summed {
    Done,
    /// The model's side does not take the request; a shorter one it may.
    Refused,
    Failed,
}

impl Driver<'_> {
    /// Has what came before this run summed up, if its first request would be too long.
    pub(in crate::worker) async fn compact(&mut self, head: &Head) -> Result<(), Halt> {
        let Some(least) = self.run.settings.context.compact_at else { return Ok(()) };
        let sizes = self.sizes(head);
        // A token is a byte at least, but for what stands elsewhere.
        let is_short = sizes.whole < least && !self.transcript.refers();
        if is_short || !self.may_compact() {
            return Ok(());
        }
        self.stop_if_draining()?;
        let Some(past) = self.past(sizes, Some(least)).await? else { return Ok(()) };
        let counted = self.count(self.transcript.messages()).await;
        let tokens = counted.unwrap_or_else(|| past.guess());
        let view = self.transcript.view();
        let after = view.compaction.as_ref().map(|before| before.tokens_after);
        if self.run.settings.context.is_due(tokens, after) {
            self.sum_up_past(&past, tokens).await?;
        }
        Ok(())
    }

    /// The reply to a request. One that is too long is made shorter, once, if it is the run's first.
    pub(in crate::worker) async fn reply_with_room(
        &mut self,
        head: &Head,
        choice: &ToolChoice,
        ids: ReplyIds,
    ) -> Result<Reply, Halt> {
        let error = match self.reply(head, choice, None, ids).await {
            Err(Halt::Model(error)) if error.is_too_long() && self.may_compact() => error,
            ended => return ended,
        };
        let request = self.unanswered(Some(&error.for_clients()));
        let step = StepCommit { request: request.as_ref(), is_progress: false, ..empty() };
        self.store(&[], &step).await?;
        let past = self.past(self.sizes(head), None).await?;
        let Some(past) = past else { return Err(Halt::Model(error)) };
        if !self.sum_up_past(&past, past.guess()).await? {
            return Err(Halt::Model(error));
        }
        self.reply(head, choice, None, ids).await
    }

    fn sizes(&self, head: &Head) -> Sizes {
        let messages = length(self.transcript.messages().text.len());
        let whole = length(head.bytes()) + messages;
        Sizes { whole, past: whole - length(self.transcript.newest_bytes()), messages }
    }

    /// Whether there is something to sum up, and nobody has tried in this run.
    fn may_compact(&self) -> bool {
        let is_first = matches!(self.agent.step(), Step::CallModel { is_first: true });
        let is_asked_for = self.run.settings.context.compact_at.is_some();
        let has_past = self.last_message_seq() > self.compacted() + 1;
        let can = self.worker.parts.model.sums_up();
        is_first && is_asked_for && has_past && can && !self.has_tried_to_compact
    }

    /// The number of the last message that a summary stands for; 0 without one.
    fn compacted(&self) -> i32 {
        self.transcript.view().compaction.as_ref().map_or(0, |compaction| compaction.up_to)
    }

    /// Says whether there is a summary now.
    async fn sum_up_past(&mut self, past: &Past, tokens: i64) -> Result<bool, Halt> {
        self.has_tried_to_compact = true;
        let mut is_done = false;
        for cut in past.cuts() {
            match self.sum_up(past, cut, tokens).await? {
                Summed::Refused => {}
                Summed::Failed => break,
                Summed::Done => {
                    is_done = true;
                    break;
                }
            }
        }
        let outcome = if is_done { CompactionOutcome::Done } else { CompactionOutcome::Failed };
        self.worker.parts.metrics.compaction(outcome);
        Ok(is_done)
    }

    /// Has the messages before this one summed up.
    async fn sum_up(&mut self, past: &Past, cut: i32, tokens: i64) -> Result<Summed, Halt> {
        let Some((request, form)) = self.summary_request(past, cut)? else {
            return Ok(Summed::Failed);
        };
        match self.reserve(&request, &form).await {
            Err(Halt::Budget(exceeded)) => {
                tracing::info!(run.id = %self.run_id(), %exceeded, "a history is not summed up");
                return Ok(Summed::Failed);
            }
            reserved => reserved?,
        }
        self.asked = Some(Asked::new(&request, form, cut));
        let started = Instant::now();
        let reply = match self.request(request, ReplyIds::new()).await {
            Ok(reply) => reply,
            Err(Halt::Model(error)) => {
                tracing::warn!(run.id = %self.run_id(), %error, "a history is not summed up");
                let request = self.unanswered(Some(&error.for_clients()));
                let end = RequestEnd { duration_ms: millis(started), ..RequestEnd::default() };
                self.go_on(end, request, None).await?;
                return Ok(if error.is_refusal() { Summed::Refused } else { Summed::Failed });
            }
            Err(halt) => return Err(halt),
        };
        // From here on it is not lost what it used, whatever is to stop.
        let request = self.answered(&reply);
        faults::point(Point::Compacting).await;
        let compaction = self.compaction(past, cut, tokens, &reply).await?;
        let summed = match (&compaction, &reply.stop) {
            (Some(_), _) => Summed::Done,
            (None, ModelStop::ModelContextWindowExceeded) => Summed::Refused,
            (None, _) => Summed::Failed,
        };
        let stop = Some(reply.stop.as_str());
        let duration_ms = millis(started);
        let end = RequestEnd { usage: reply.usage, stop, duration_ms, applied_edits: None };
        self.go_on(end, request, compaction).await?;
        Ok(summed)
    }

    fn summary_request(
        &self,
        past: &Past,
        cut: i32,
    ) -> Result<Option<(Request, RequestForm)>, Halt> {
        let parts = &self.worker.parts;
        let settings = self.run.settings.for_summary();
        let tools = self.run.options.tools.as_deref();
        let Some(head) = parts.model.summary_head(&settings, tools, parts.prompt_cache)? else {
            return Ok(None);
        };
        let view = self.transcript.view();
        let text = sent_before(past.up_to(cut), view.clone());
        let is_compacted = view.compaction.is_some();
        let messages = Messages { text: &text, far_mark: None, is_compacted };
        let form = self.form(messages, &ToolChoice::Auto, Some(settings.max_tokens));
        let form = RequestForm { summary: true, ..form };
        Ok(Some((head.request(messages, &ToolChoice::Auto), form)))
    }

    /// What the reply has to be sent in place of the messages before this one, if it has it.
    async fn compaction(
        &self,
        past: &Past,
        cut: i32,
        tokens_before: i64,
        reply: &Reply,
    ) -> Result<Option<Compaction>, Halt> {
        let summary = reply.content.summary()?.filter(|_| reply.stop == ModelStop::Compaction);
        let Some(content) = summary else {
            tracing::warn!(run.id = %self.run_id(), stop = reply.stop.as_str(), "no summary came");
            return Ok(None);
        };
        let compaction = Compaction { up_to: cut - 1, content, tokens_before, tokens_after: 0 };
        let changes = self.transcript.view().changes.clone();
        let view = SentView { changes, compaction: Some(compaction.clone()) };
        let text = sent_messages(&past.lines, view);
        let sent = Messages { text: &text, far_mark: None, is_compacted: true };
        let counted = self.count(sent).await;
        let Sizes { whole, messages, .. } = past.sizes;
        let guess = || {
            let now = whole - messages + length(text.len());
            tokens_before.saturating_mul(now) / whole.max(1)
        };
        let tokens_after = counted.unwrap_or_else(guess);
        if tokens_after >= tokens_before {
            tracing::warn!(run.id = %self.run_id(), tokens_before, tokens_after, "a summary is too long");
            return Ok(None);
        }
        Ok(Some(Compaction { tokens_after, ..compaction }))
    }

    /// Stores what came of the request, and opens the next one.
    async fn go_on(
        &mut self,
        end: RequestEnd<'_>,
        request: Option<RequestRecord>,
        compaction: Option<Compaction>,
    ) -> Result<(), Halt> {
        // It is no work of the run, whose limits are for its own.
        self.claimed_at += Duration::from_millis(end.duration_ms.unsigned_abs());
        let mut events = Vec::from_iter(self.end_request(&end));
        let told = compaction.as_ref().map(EventBody::compacted);
        events.extend(told.as_ref().map(NewEvent::new));
        self.announce_request(&mut events);
        let is_compacted = compaction.is_some();
        if is_compacted {
            // Whatever becomes of the step, it is not known any more what will be sent.
            self.transcript.begin_again();
        }
        let notes: Vec<Note> = compaction.into_iter().map(Note::Compacted).collect();
        let usage = end.stop.map(|_| end.usage);
        let step = StepCommit {
            events: &events,
            notes: &notes,
            usage,
            request: request.as_ref(),
            // A worker that dies on what comes next has come no further by a failure.
            is_progress: is_compacted,
            ..empty()
        };
        self.store(&[], &step).await?;
        if is_compacted { self.read_again().await } else { Ok(()) }
    }
}

impl Driver<'_> {
    /// Whether the request under way is for a summary, which nobody reads while it comes.
    pub(in crate::worker) fn asks_for_summary(&self) -> bool {
        self.asked.as_ref().is_some_and(Asked::is_for_summary)
    }
}

fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
