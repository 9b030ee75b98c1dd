//! Before a run, a history that nears the model's window is summed up by the model's side. What is
//! stored stays as it is; what is sent begins with the summary from then on.
//!
//! This happens before a run's first request only, so that a turn is never cut in two. A summary
//! that cannot be had fails no run: it goes on with the whole history, and the next one tries
//! again.

use std::time::Instant;

use super::asked::Asked;
use super::drive::{Driver, RequestEnd, empty, millis};
use super::halt::Halt;
use super::patience::{Patience, in_time};
use super::previews::ReplyIds;
use super::transcript::sent_messages;
use crate::agent::Step;
use crate::domain::budget::{Estimate, Measured};
use crate::domain::context::Compaction;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::note::Note;
use crate::domain::request::{RequestForm, RequestRecord};
use crate::domain::run::ModelStop;
use crate::domain::sent::SentView;
use crate::domain::session::Settings;
use crate::domain::tool::ToolChoice;
use crate::faults::{self, Point};
use crate::metrics::CompactionOutcome;
use crate::model::{Head, Messages, Reply, Request};
use crate::store::messages::{Line, list_lines};
use crate::store::requests::{last_answered, measured};
use crate::store::step::StepCommit;

/// Bytes of a body that are taken for a token where nobody counts.
const BYTES_PER_TOKEN: i64 = 3;

/// What came before a run.
struct Past {
    /// The history that is sent message by message, the run's own message included.
    lines: Vec<Line>,
    /// What the model's side counted last.
    measured: Option<Measured>,
    /// The last message of what surely fits into the model's window, where that is not all.
    fitting: Option<i32>,
}

impl Past {
    fn up_to(&self, seq: i32) -> &[Line] {
        let end = self.lines.partition_point(|line| line.seq <= seq);
        self.lines.get(..end).unwrap_or_default()
    }

    /// The tokens of a body of so many bytes, where nobody counts them.
    fn guess(&self, bytes: i64) -> i64 {
        let known = self.measured.filter(|known| known.bytes <= bytes);
        known.map_or(bytes / BYTES_PER_TOKEN, |known| {
            known.tokens + (bytes - known.bytes) / BYTES_PER_TOKEN
        })
    }
}

/// What became of a request for a summary.
enum Summed {
    Done,
    /// The model's side had no room for it.
    TooLong,
    Failed,
}

impl Driver<'_> {
    /// Has what came before this run summed up, if its first request would be too long.
    pub(super) async fn compact(&mut self, head: &Head) -> Result<(), Halt> {
        let Some(at) = self.run.settings.context.compact_at else { return Ok(()) };
        let is_first = matches!(self.agent.step(), Step::CallModel { is_first: true });
        let bytes = length(head.bytes() + self.transcript.messages().text.len());
        // A token is a byte at least.
        if !is_first || bytes < at || self.last_message_seq() <= self.compacted() + 1 {
            return Ok(());
        }
        self.stop_if_draining()?;
        let Some(past) = self.past(at, bytes).await? else { return Ok(()) };
        let counted = self.count(self.transcript.messages()).await?;
        let tokens = counted.unwrap_or_else(|| past.guess(bytes));
        let view = self.transcript.view();
        let after = view.compaction.as_ref().map(|before| before.tokens_after);
        if !self.run.settings.context.is_due(tokens, after) {
            return Ok(());
        }
        let whole = self.last_message_seq() - 1;
        for up_to in [Some(whole), past.fitting].into_iter().flatten() {
            match self.sum_up(&past, up_to, tokens).await? {
                Summed::TooLong => {}
                Summed::Done | Summed::Failed => break,
            }
        }
        Ok(())
    }

    fn compacted(&self) -> i32 {
        self.transcript.view().compaction.as_ref().map_or(0, |compaction| compaction.up_to)
    }

    /// Reads what came before the run; none if it is surely shorter than so many tokens.
    async fn past(&mut self, at: i64, bytes: i64) -> Result<Option<Past>, Halt> {
        let mut patience = Patience::default();
        loop {
            match in_time(self.try_past(at, bytes)).await {
                Ok(past) => return Ok(past),
                Err(halt) => self.wait_out(&mut patience, halt).await?,
            }
        }
    }

    async fn try_past(&self, at: i64, bytes: i64) -> Result<Option<Past>, Halt> {
        let id = self.session_id();
        let mut conn = self.worker.parts.pool.acquire().await?;
        let measured = measured(&mut conn, id).await?;
        let mut past = None;
        if Estimate::new(bytes, 0, None, measured).tokens >= at {
            let after = self.compacted();
            let lines = list_lines(&mut conn, id, after).await?;
            let range = (after, self.last_message_seq() - 1);
            let fitting = last_answered(&mut conn, id, range).await?;
            past = Some(Past { lines, measured, fitting });
        }
        conn.give_back();
        Ok(past)
    }

    /// Asks the model's side for the tokens of the run's first request with these messages.
    async fn count(&self, messages: Messages<'_>) -> Result<Option<i64>, Halt> {
        let (model, tools) = (&self.worker.parts.model, self.run.options.tools.as_deref());
        let counted = model.count_tokens(&self.run.settings, tools, messages);
        let Some(counted) = self.signals.unless_stopped(counted).await? else { return Ok(None) };
        if let Err(error) = &counted {
            tracing::warn!(run.id = %self.run_id(), %error, "the tokens of a request are guessed");
        }
        Ok(counted.ok())
    }

    /// Has the messages up to this one summed up.
    async fn sum_up(&mut self, past: &Past, up_to: i32, tokens: i64) -> Result<Summed, Halt> {
        let Some((request, form)) = self.summary_request(past, up_to)? else {
            return Ok(Summed::Failed);
        };
        match self.reserve(&request, form.max_tokens).await {
            Err(Halt::Budget(_)) => return Ok(Summed::Failed),
            reserved => reserved?,
        }
        self.asked = Some(Asked::new(&request, form, up_to));
        let started = Instant::now();
        let reply = match self.request(request, ReplyIds::new()).await {
            Ok(reply) => reply,
            Err(Halt::Model(error)) => {
                tracing::warn!(run.id = %self.run_id(), %error, "a history is not summed up");
                let request = self.unanswered(Some(&error.for_clients()));
                let end = RequestEnd { duration_ms: millis(started), ..RequestEnd::default() };
                self.go_on(end, request, None).await?;
                return Ok(if error.is_too_long() { Summed::TooLong } else { Summed::Failed });
            }
            Err(halt) => return Err(halt),
        };
        faults::point(Point::Compacting).await;
        let compaction = self.compaction(past, up_to, tokens, &reply).await?;
        let summed = match (&compaction, &reply.stop) {
            (Some(_), _) => Summed::Done,
            (None, ModelStop::ModelContextWindowExceeded) => Summed::TooLong,
            (None, _) => Summed::Failed,
        };
        // It is no round of the run, whose limits are for its own: a summary may use more than they
        // allow.
        let request = self.answered(&reply);
        let stop = Some(reply.stop.as_str());
        let duration_ms = millis(started);
        let end = RequestEnd { usage: reply.usage, stop, duration_ms, applied_edits: None };
        self.go_on(end, request, compaction).await?;
        Ok(summed)
    }

    fn summary_request(
        &self,
        past: &Past,
        up_to: i32,
    ) -> Result<Option<(Request, RequestForm)>, Halt> {
        let parts = &self.worker.parts;
        let settings = &self.run.settings;
        let max_tokens = settings.summary_tokens();
        let settings = Settings { max_tokens, ..settings.clone() };
        let tools = self.run.options.tools.as_deref();
        let Some(head) = parts.model.summary_head(&settings, tools, parts.prompt_cache)? else {
            return Ok(None);
        };
        let view = self.transcript.view();
        let text = sent_messages(past.up_to(up_to), view.clone());
        let is_compacted = view.compaction.is_some();
        let messages = Messages { text: &text, far_mark: None, is_compacted };
        let form = self.form(messages, &ToolChoice::Auto, Some(max_tokens));
        let form = RequestForm { summary: true, ..form };
        Ok(Some((head.request(messages, &ToolChoice::Auto), form)))
    }

    /// What the reply has to be sent in place of the messages up to this one, if it has it.
    async fn compaction(
        &self,
        past: &Past,
        up_to: i32,
        tokens_before: i64,
        reply: &Reply,
    ) -> Result<Option<Compaction>, Halt> {
        let Some(content) = reply.content.summary()? else {
            tracing::warn!(run.id = %self.run_id(), stop = reply.stop.as_str(), "no summary came");
            return Ok(None);
        };
        let compaction = Compaction { up_to, content, tokens_before, tokens_after: 0 };
        let changes = self.transcript.view().changes.clone();
        let view = SentView { changes, compaction: Some(compaction.clone()) };
        let text = sent_messages(&past.lines, view);
        let messages = Messages { text: &text, far_mark: None, is_compacted: true };
        let counted = self.count(messages).await?;
        let before = length(self.transcript.messages().text.len()).max(1);
        let guess = || tokens_before.saturating_mul(length(text.len())) / before;
        Ok(Some(Compaction { tokens_after: counted.unwrap_or_else(guess), ..compaction }))
    }

    /// Stores what came of the request, and opens the next one.
    async fn go_on(
        &mut self,
        end: RequestEnd<'_>,
        request: Option<RequestRecord>,
        compaction: Option<Compaction>,
    ) -> Result<(), Halt> {
        let is_compacted = compaction.is_some();
        let metrics = &self.worker.parts.metrics;
        metrics.compaction(if is_compacted {
            CompactionOutcome::Done
        } else {
            CompactionOutcome::Failed
        });
        let mut events = Vec::from_iter(self.end_request(&end));
        let told = compaction.as_ref().map(EventBody::compacted);
        events.extend(told.as_ref().map(NewEvent::new));
        self.announce_request(&mut events);
        let notes: Vec<Note> = compaction.into_iter().map(Note::Compacted).collect();
        let usage = end.stop.map(|_| end.usage);
        let request = request.as_ref();
        let step = StepCommit { events: &events, notes: &notes, usage, request, ..empty() };
        self.store(&[], &step).await?;
        if is_compacted { self.read_again().await } else { Ok(()) }
    }
}

fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
