//! Compaction: before a run, the model's server summarizes a history that nears the model's context
//! window. The stored history does not change; requests begin with the summary from then on.
//!
//! A run whose summary fails continues with the whole history. Within a run, a history is compacted
//! only if the server refuses a request as too long, or a reply ends because the window is full: the
//! messages before the run first, and then those of the run up to its last round.

mod earlier_messages;
mod overflow;

use std::time::{Duration, Instant};

use crate::domain::context::Compaction;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::request::{RequestForm, RequestRecord};
use crate::domain::sent_history::SentView;
use crate::domain::state_change::StateChange;
use crate::domain::stop_reason::ModelStop;
use crate::domain::tool::ToolChoice;
use crate::faults::{self, Point};
use crate::metrics::CompactionOutcome;
use crate::model::{Head, Messages, Reply, Request};
use crate::store::step::StepCommit;
use crate::worker::model_call::parameters::ReplyIds;
use crate::worker::model_call::{ModelCalls, RequestEnd, RequestInFlight};
use crate::worker::run::state::RunState;
use crate::worker::run::step_writer::StepWriter;
use crate::worker::run::stop_cause::StopCause;
use crate::worker::time::millis_since;
use crate::worker::transcript::{sent_before, sent_messages};
use earlier_messages::{EarlierMessages, RequestSizes, count_tokens, length};

/// Compacts the history of a run's session.
#[derive(Debug, Default)]
pub(in crate::worker) struct Compactor {
    /// A summary was requested before the first request of this run was answered.
    has_tried: bool,
    /// A summary that was requested later has failed.
    has_failed: bool,
}

/// The result of a request for a summary.
enum SummaryResult {
    Done,
    /// The model's server refuses the request; it may accept a shorter one.
    Refused,
    Failed,
}

impl Compactor {
    /// Compacts the history before this run if its first request would be too long.
    pub(in crate::worker) async fn compact(
        &mut self,
        state: &mut RunState<'_>,
        model: &mut ModelCalls<'_>,
        head: &Head,
    ) -> Result<(), StopCause> {
        let run = state.run;
        let context = &run.settings().context;
        let Some(threshold) = context.compact_at else { return Ok(()) };
        let sizes = sizes(&state.writer, head);
        // A token has at least one byte, unless it is in content that a block refers to.
        let is_short = sizes.whole < threshold && !state.writer.transcript.refers();
        if is_short || !self.may_compact(state) {
            return Ok(());
        }
        state.progress.stop_if_draining()?;
        // The history is read from the database.
        state.writer.finish().await?;
        let writer = &state.writer;
        let earlier = EarlierMessages::read_if_long(run, writer, sizes, threshold).await?;
        let Some(earlier) = earlier else { return Ok(()) };
        let counted = count_tokens(run, writer.transcript.messages()).await;
        let tokens = counted.unwrap_or_else(|| earlier.estimated_tokens());
        let previous = writer.transcript.view().compaction.as_ref();
        if context.is_due(tokens, previous.map(|previous| previous.tokens_after)) {
            Box::pin(self.summarize(state, model, &earlier, tokens)).await?;
        }
        Ok(())
    }

    /// True if there is a history to summarize and no summary was requested in this run.
    fn may_compact(&self, state: &RunState<'_>) -> bool {
        let run = state.run;
        let is_enabled = run.settings().context.compact_at.is_some();
        let last_seq = state.writer.last_message_seq();
        let has_earlier_messages = last_seq > state.writer.transcript.compacted() + 1;
        state.progress.is_at_first_request()
            && is_enabled
            && has_earlier_messages
            && !self.has_tried
    }

    /// Requests summaries until one succeeds or no shorter one can help. Returns true on success.
    async fn summarize(
        &mut self,
        state: &mut RunState<'_>,
        model: &mut ModelCalls<'_>,
        earlier: &EarlierMessages,
        tokens: i64,
    ) -> Result<bool, StopCause> {
        self.has_tried = true;
        summarize_up_to(&earlier.ends(), state, model, (earlier, tokens)).await
    }
}

/// Requests summaries of the messages before each of these, until one succeeds or no shorter one can
/// help. Returns true on success.
async fn summarize_up_to(
    ends: &[i32],
    state: &mut RunState<'_>,
    model: &mut ModelCalls<'_>,
    (earlier, tokens): (&EarlierMessages, i64),
) -> Result<bool, StopCause> {
    let mut is_done = false;
    for end in ends {
        let summary = SummaryRequest { earlier, end: *end, tokens };
        match summary.send(state, model).await? {
            SummaryResult::Refused => {}
            SummaryResult::Failed => break,
            SummaryResult::Done => {
                is_done = true;
                break;
            }
        }
    }
    let outcome = if is_done { CompactionOutcome::Done } else { CompactionOutcome::Failed };
    state.run.services.metrics.compaction(outcome);
    Ok(is_done)
}

fn sizes(writer: &StepWriter<'_>, head: &Head) -> RequestSizes {
    let transcript = &writer.transcript;
    let text = transcript.messages().text;
    let messages = length(text.len());
    let changed = head.added_bytes(text) - head.unread_bytes(text);
    let whole = length(head.bytes()) + messages + changed;
    RequestSizes { whole, earlier: whole - length(transcript.newest_bytes()), messages }
}

/// A request for a summary of the messages before one of them.
struct SummaryRequest<'a> {
    earlier: &'a EarlierMessages,
    /// The first message that is not summarized.
    end: i32,
    /// The tokens of the run's first request without the summary.
    tokens: i64,
}

impl SummaryRequest<'_> {
    async fn send(
        &self,
        state: &mut RunState<'_>,
        model: &mut ModelCalls<'_>,
    ) -> Result<SummaryResult, StopCause> {
        let run_id = state.run.run_id();
        let (request, form) = self.request(state, model)?;
        match model.reserve(&state.writer, &request, &form).await {
            Err(StopCause::Budget(exceeded)) => {
                tracing::info!(run.id = %run_id, %exceeded, "history not summarized");
                return Ok(SummaryResult::Failed);
            }
            reserved => reserved?,
        }
        model.begin(RequestInFlight::new(&request, form, self.end));
        let started = Instant::now();
        let reply = match model.request(state, request, ReplyIds::new()).await {
            Ok(reply) => reply,
            Err(StopCause::Model(error)) => {
                tracing::warn!(run.id = %run_id, %error, "history not summarized");
                let is_refusal = error.is_refusal();
                let error = error.for_clients();
                let record = model.record_failure(&mut state.progress, Some(&error));
                let end = RequestEnd { duration_ms: millis_since(started), ..Default::default() };
                store_result(state, model, end, record, None).await?;
                return Ok(if is_refusal { SummaryResult::Refused } else { SummaryResult::Failed });
            }
            Err(cause) => return Err(cause),
        };
        // Recorded first: the usage counts whatever stops the run from here on.
        let record = model.record_reply(&mut state.progress, &reply);
        faults::point(Point::Compacting).await;
        let compaction = self.compaction(state, &reply).await?;
        let result = match (&compaction, &reply.stop) {
            (Some(_), _) => SummaryResult::Done,
            (None, ModelStop::ModelContextWindowExceeded) => SummaryResult::Refused,
            (None, _) => SummaryResult::Failed,
        };
        let stop = Some(reply.stop.as_str());
        let duration_ms = millis_since(started);
        let end = RequestEnd { stop, duration_ms, applied_edits: None };
        store_result(state, model, end, record, compaction).await?;
        Ok(result)
    }

    fn request(
        &self,
        state: &RunState<'_>,
        model: &ModelCalls<'_>,
    ) -> Result<(Request, RequestForm), StopCause> {
        let (run, services) = (state.run, state.run.services);
        let settings = run.settings().for_summary();
        let cache = services.prompt_cache;
        let head = run.model().server.client.summary_head(&settings, run.run_tools(), cache)?;
        let view = state.writer.transcript.view();
        let text = sent_before(self.earlier.up_to(self.end), view.clone());
        let is_compacted = view.compaction.is_some();
        let messages =
            Messages { text: &text, far_breakpoint: None, is_compacted, container: None };
        let max_tokens = Some(settings.max_tokens);
        let form = model.form(&state.writer, messages, &ToolChoice::AUTO, max_tokens);
        let form = RequestForm { summary: true, unread: head.unread_bytes(&text), ..form };
        Ok((head.request(messages, &ToolChoice::AUTO), form))
    }

    /// The summary of the reply, unless there is none or it is no shorter than the history.
    async fn compaction(
        &self,
        state: &RunState<'_>,
        reply: &Reply,
    ) -> Result<Option<Compaction>, StopCause> {
        let (run, tokens_before) = (state.run, self.tokens);
        let Some(content) = run.model().server.client.summary_of(reply)? else {
            let stop = reply.stop.as_str();
            tracing::warn!(run.id = %run.run_id(), stop, "reply to a summary request has no summary");
            return Ok(None);
        };
        let up_to = self.end - 1;
        let compaction = Compaction { up_to, content, tokens_before, tokens_after: 0 };
        let changes = state.writer.transcript.view().changes.clone();
        let view = SentView { changes, compaction: Some(compaction.clone()) };
        let text = sent_messages(&self.earlier.lines, view);
        let sent =
            Messages { text: &text, far_breakpoint: None, is_compacted: true, container: None };
        let counted = count_tokens(run, sent).await;
        let RequestSizes { whole, messages, .. } = self.earlier.sizes;
        let estimate = || {
            let now = whole - messages + length(text.len());
            tokens_before.saturating_mul(now) / whole.max(1)
        };
        let tokens_after = counted.unwrap_or_else(estimate);
        if tokens_after >= tokens_before {
            tracing::warn!(run.id = %run.run_id(), tokens_before, tokens_after, "summary too long");
            return Ok(None);
        }
        Ok(Some(Compaction { tokens_after, ..compaction }))
    }
}

/// Stores the result of a summary request, and announces the next request.
async fn store_result(
    state: &mut RunState<'_>,
    model: &mut ModelCalls<'_>,
    end: RequestEnd<'_>,
    request: Option<RequestRecord>,
    compaction: Option<Compaction>,
) -> Result<(), StopCause> {
    // The time limit of a run is for its own work.
    state.progress.exclude(Duration::from_millis(end.duration_ms.unsigned_abs()));
    let mut events = Vec::from_iter(model.end_event(&end));
    let compacted = compaction.as_ref().map(EventBody::compacted);
    events.extend(compacted.as_ref().map(NewEvent::new));
    model.announce(&mut state.progress, &mut events);
    let is_compacted = compaction.is_some();
    if is_compacted {
        // The transcript is unknown from here on, whether the step is committed or not.
        state.writer.transcript.reset();
    }
    let state_changes: Vec<StateChange> =
        compaction.into_iter().map(StateChange::Compacted).collect();
    let answered = request.as_ref().filter(|request| request.stop_reason.is_some());
    let usage = answered.map(|request| request.usage);
    let step = StepCommit {
        events: &events,
        state_changes: &state_changes,
        usage,
        request: request.as_ref(),
        // A failed summary is no progress for a run whose workers stop afterwards.
        is_progress: is_compacted,
        ..StepCommit::default()
    };
    state.writer.store(&[], &step).await?;
    if is_compacted { state.writer.reload_transcript().await } else { Ok(()) }
}
