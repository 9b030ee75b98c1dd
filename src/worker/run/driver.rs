//! One run from its claim to its rest: where the loop's decisions meet IO.

use std::collections::HashSet;
use std::time::Instant;

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::agent::history::{self, Turn};
use crate::agent::{AgentLoop, Bounds, Finish, Step};
use crate::domain::attempt::Attempt;
use crate::domain::budget::Measured;
use crate::domain::claim::Claimed;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::{EventId, MessageId, RunId, SessionId};
use crate::domain::message::{Content, Message, Role};
use crate::domain::output_schema::Verdict;
use crate::domain::prefix::PrefixChange;
use crate::domain::run::{LimitKind, Limits, Outcome, Refusal, RunStatus, StopReason};
use crate::domain::tool::{ToolCall, ToolChoice};
use crate::domain::usage::{Spent, Usage};
use crate::faults::{self, Point};
use crate::model::{Head, Reply};
use crate::spans::Open;
use crate::store::step::{NewMessage, StepCommit};
use crate::tools::policy::Policy;
use crate::tools::seen::SeenFiles;
use crate::tools::workspace::Workspace;
use crate::tools::{Caller, Inquiry, ModelAccess, ToolContext, without_nul};
use crate::worker::Worker;
use crate::worker::claim::active_runs::Signals;
use crate::worker::claim::slots::Slot;
use crate::worker::model_call::previews::ReplyIds;
use crate::worker::model_call::refused_content::head_hashes;
use crate::worker::model_call::reply_events::{call_event, reply_events, summed_up};
use crate::worker::model_call::request_record::Asked;
use crate::worker::run::spans::failure;
use crate::worker::run::stop_cause::Halt;
use crate::worker::transcript::{HeadHashes, Transcript};

/// A run in the hands of a worker.
#[expect(clippy::struct_excessive_bools, reason = "facts, each of its own")]
pub(in crate::worker) struct Driver<'a> {
    pub(in crate::worker) worker: &'a Worker,
    pub(in crate::worker) run: Claimed,
    pub(in crate::worker) signals: Signals,
    /// The run's place among those that are worked on.
    pub(in crate::worker) slot: &'a mut Slot,
    pub(in crate::worker) context: ToolContext,
    pub(in crate::worker) agent: AgentLoop,
    pub(in crate::worker) transcript: Transcript,
    /// What all requests of the run begin with.
    pub(in crate::worker) head: HeadHashes,
    /// Where the request in flight began to differ from the one before it.
    pub(in crate::worker) prefix_changed: Option<PrefixChange>,
    pub(in crate::worker) limits: Limits,
    pub(in crate::worker) claimed_at: Instant,
    /// What the run has used so far.
    pub(in crate::worker) spent: Spent,
    /// The request under way.
    pub(in crate::worker) asked: Option<Asked>,
    /// What the model's side counted last.
    pub(in crate::worker) measured: Option<Measured>,
    /// Whether the session's owner has a budget.
    pub(in crate::worker) is_budgeted: bool,
    /// The tries of the request under way.
    pub(in crate::worker) attempts: Vec<Attempt>,
    /// The event that opened the request in flight, if there is one.
    pub(in crate::worker) span: Option<EventId>,
    /// Whether a summary of what came before was asked for.
    pub(in crate::worker) has_tried_to_compact: bool,
    /// Whether the user message is in the history, and the run out of the queue.
    pub(in crate::worker) is_begun: bool,
    /// Whether calls may have been touched by an earlier attempt.
    pub(in crate::worker) is_resumed: bool,
    /// Whether runs of the same session wait for this one.
    pub(in crate::worker) others_wait: bool,
    /// Steps that are committed.
    pub(in crate::worker) steps: i32,
    /// The names of the tools that the model was given, once it has asked for one.
    pub(in crate::worker) offered: Option<HashSet<String>>,
    /// Lists that tool servers had told when it was looked whether they are still those of the
    /// session.
    pub(in crate::worker) lists_told: Option<u64>,
    /// The rules for calls, once there have been some.
    pub(in crate::worker) policy: Option<Policy>,
    /// What calls that run want to know of the model.
    pub(in crate::worker) inquiries: mpsc::Receiver<Inquiry>,
}

/// How a request to the model ended; without a stop reason it failed.
#[derive(Debug, Default)]
pub(in crate::worker) struct RequestEnd<'a> {
    pub(in crate::worker) usage: Usage,
    pub(in crate::worker) stop: Option<&'a str>,
    pub(in crate::worker) duration_ms: i64,
    /// What the model's side left out of what it was sent.
    pub(in crate::worker) applied_edits: Option<Box<RawValue>>,
}

impl<'a> RequestEnd<'a> {
    /// The end of a request with a reply.
    pub(in crate::worker) fn of(reply: &'a Reply) -> Self {
        let (usage, stop) = (reply.usage, Some(reply.stop.as_str()));
        Self { usage, stop, duration_ms: 0, applied_edits: reply.applied_edits.clone() }
    }
}

/// Drives a run until it settles or must be let go.
/// Says whether another run of the session waits for this one.
pub(in crate::worker) async fn drive(
    worker: &Worker,
    run: Claimed,
    signals: Signals,
    slot: &mut Slot,
    span: Option<&mut Open>,
) -> bool {
    let mut driver = Driver::new(worker, run, signals, slot);
    let ended = match driver.run_steps().await {
        Ok(()) => Ok(()),
        Err(halt) => {
            if let (Some(span), Some(word)) = (span, failure(&halt)) {
                span.fail(word);
            }
            driver.halt(halt).await
        }
    };
    if let Err(halt) = ended {
        tracing::error!(run.id = %driver.run_id(), ?halt, "a run could not be settled");
    }
    worker.transcripts.keep(driver.session_id(), driver.transcript);
    driver.others_wait
}

impl<'a> Driver<'a> {
    fn new(worker: &'a Worker, run: Claimed, signals: Signals, slot: &'a mut Slot) -> Self {
        let limits = run.options.limits.or(&run.settings.limits);
        let workspace = if let Some(folder) = &run.workspace {
            Workspace::named(folder.into())
        } else {
            let owner = run.parent_session.unwrap_or(run.session_id);
            Workspace::new(worker.parts.workspaces.join(owner.to_string()))
        };
        let (model, inquiries) = ModelAccess::open();
        Self {
            context: ToolContext {
                workspace,
                stop: CancellationToken::new(),
                lease: worker.lease.clone(),
                tool_use_id: String::new(),
                claim: run.fence,
                seen: SeenFiles::of(worker.parts.pool.clone(), run.session_id),
                after_plan: None,
                caller: Caller::of(worker.parts.pool.clone(), run.session_id),
                model,
            },
            agent: AgentLoop::new(Bounds::new(&limits, run.settings.price)),
            transcript: worker.transcripts.take(run.session_id),
            head: head_hashes(&run),
            prefix_changed: None,
            claimed_at: Instant::now(),
            spent: Spent::default(),
            asked: None,
            measured: None,
            is_budgeted: run.is_budgeted,
            attempts: Vec::new(),
            span: None,
            has_tried_to_compact: false,
            is_begun: run.begun.is_some(),
            is_resumed: false,
            others_wait: false,
            steps: run.steps,
            offered: None,
            lists_told: None,
            policy: None,
            inquiries,
            worker,
            run,
            signals,
            slot,
            limits,
        }
    }

    pub(in crate::worker) fn run_id(&self) -> RunId {
        self.run.fence.run_id
    }

    pub(in crate::worker) fn session_id(&self) -> SessionId {
        self.run.session_id
    }

    /// The place of the message that was stored last.
    pub(in crate::worker) fn last_message_seq(&self) -> i32 {
        self.transcript.seq()
    }

    async fn run_steps(&mut self) -> Result<(), Halt> {
        faults::point(Point::Claimed).await;
        self.begin().await?;
        self.enter_mode().await?;
        let parts = &self.worker.parts;
        let tools = self.run.options.tools.as_deref();
        let head = parts.model.head(&self.run.settings, tools, parts.prompt_cache)?;
        self.compact(&head).await?;
        loop {
            self.stop_if_draining()?;
            if self.may_have_other_lists() {
                Box::pin(self.tell_of_lists()).await?;
            }
            match self.agent.step().clone() {
                Step::CallModel { is_first: true } => {
                    let choice = self.run.options.tool_choice.clone();
                    self.ask(&head, &choice).await?;
                }
                Step::CallModel { is_first: false } => self.ask(&head, &ToolChoice::Auto).await?,
                Step::Exhausted(_) => self.ask(&head, &ToolChoice::None).await?,
                Step::CallTools(calls) => self.answer(&calls).await?,
                Step::Finish(_) => return Ok(()),
            }
        }
    }

    /// Here, between a request and a call, nothing is lost by letting the run go.
    pub(in crate::worker) fn stop_if_draining(&self) -> Result<(), Halt> {
        let is_over = matches!(self.agent.step(), Step::Finish(_));
        if self.signals.drain.is_cancelled() && !is_over {
            return Err(Halt::ShuttingDown);
        }
        Ok(())
    }

    async fn ask(&mut self, head: &Head, choice: &ToolChoice) -> Result<(), Halt> {
        let started = Instant::now();
        let ids = ReplyIds::new();
        let reply = self.reply_with_room(head, choice, ids).await?;
        faults::point(Point::ReplyRead).await;
        let (reply, started) = self.widened(reply, started, (choice, ids)).await?;
        self.take_in(reply, ids, started).await
    }

    /// Stores a reply with all that follows from it.
    async fn take_in(&mut self, reply: Reply, ids: ReplyIds, started: Instant) -> Result<(), Halt> {
        let turn = Turn { is_final: self.agent.is_final(), may_pause: self.agent.may_pause() };
        let kept = history::keep(&reply.content, &reply.stop, turn)?;
        let message = Message {
            role: Role::Assistant,
            content: kept.clone().map_or_else(|| Content::from_blocks([]), Ok)?,
            stop_reason: Some(reply.stop.clone()),
            usage: reply.usage,
        };
        self.agent.push(&message)?;
        let request = self.answered(&reply);

        let asked = self.asked()?;
        // A draft that was refused is gone with its summary.
        let has_summary = message.content.summary()?.is_some();
        let told = reply.summed_up.filter(|_| has_summary);
        let mut events: Vec<NewEvent> = told.map(summed_up).into_iter().collect();
        events.extend(reply_events(&message.content, ids, asked)?);
        events.extend(self.end_request(&RequestEnd {
            usage: reply.usage,
            stop: Some(reply.stop.as_str()),
            duration_ms: millis(started),
            applied_edits: reply.applied_edits,
        }));
        let planned: &[ToolCall] = match self.agent.step() {
            Step::CallTools(calls) => &calls.clone(),
            Step::CallModel { .. } | Step::Exhausted(_) | Step::Finish(_) => &[],
        };
        let outcome = self.outcome(&message, reply.refusal)?;
        match &outcome {
            Some(outcome) => {
                events.push(self.told_usage());
                events.push(idle(outcome));
            }
            None => self.announce_request(&mut events),
        }
        let messages = kept.map(|_| NewMessage {
            message_id: if reply.id.is_empty() { MessageId::new().to_string() } else { reply.id },
            model: Some(reply.model),
            message,
        });
        let settles = outcome.as_ref().map(|outcome| (RunStatus::Completed, outcome));
        let step = StepCommit {
            planned,
            events: &events,
            usage: Some(reply.usage),
            request: request.as_ref(),
            settles,
            ..empty()
        };
        self.store(messages.as_slice(), &step).await
    }

    /// What the last reply asks for, and what the policy says of it.
    fn asked(&mut self) -> Result<Vec<NewEvent>, Halt> {
        let calls = self.open_calls();
        calls.iter().map(|call| Ok(call_event(call, self.permission(call)?))).collect()
    }

    fn outcome(&self, last: &Message, refusal: Refusal) -> Result<Option<Outcome>, Halt> {
        let Step::Finish(Finish { mut stop_reason, limited }) = self.agent.step().clone() else {
            return Ok(None);
        };
        if let StopReason::Refusal(told) = &mut stop_reason {
            told.category = refusal.category.map(without_nul);
            told.explanation = refusal.explanation.map(without_nul);
        }
        let output_text = last.content.joined_text()?;
        let schema = self.run.settings.model_options.output_schema.as_deref();
        Ok(Some(Outcome {
            stop_reason,
            limited,
            output: schema.map(|schema| Verdict::of(schema, &output_text)),
            output_text,
            error: None,
        }))
    }

    /// Runs the calls of the last reply and stores their results in one message.
    async fn answer(&mut self, calls: &[ToolCall]) -> Result<(), Halt> {
        let answered = self.call_tools(calls).await?;
        faults::point(Point::ResultsReady).await;
        self.is_resumed = false;
        let message = user_message(history::results(&answered.results)?);
        self.agent.push(&message)?;
        let mut events = answered.events;
        self.announce_request(&mut events);
        let messages = [new_user_message(message)];
        let step = StepCommit {
            recorded_message_seq: self.last_message_seq(),
            recorded: &answered.records,
            events: &events,
            notes: &answered.notes,
            ..empty()
        };
        self.store(&messages, &step).await?;
        faults::point(Point::ResultsStored).await;
        Ok(())
    }

    /// The event that closes the request in flight, if there is one.
    pub(in crate::worker) fn end_request(&mut self, end: &RequestEnd<'_>) -> Option<NewEvent> {
        let model_request_start_id = self.span.take()?;
        Some(NewEvent::new(&EventBody::ModelRequestEnd {
            model_request_start_id,
            model_usage: end.usage,
            stop_reason: end.stop.map(str::to_owned),
            is_error: end.stop.is_none(),
            duration_ms: end.duration_ms,
            prefix_changed: self.prefix_changed.take(),
            applied_edits: end.applied_edits.clone(),
        }))
    }

    /// Adds the event that opens the next request, if one comes next.
    pub(in crate::worker) fn announce_request(&mut self, events: &mut Vec<NewEvent>) {
        let elapsed = self.run.elapsed + self.claimed_at.elapsed();
        if self.limits.seconds.is_some_and(|seconds| elapsed.as_secs() >= u64::from(seconds)) {
            self.agent.exhaust(LimitKind::Seconds);
        }
        if matches!(self.agent.step(), Step::CallModel { .. } | Step::Exhausted(_)) {
            let span = EventId::new();
            self.span = Some(span);
            let model = self.run.settings.model.clone();
            let body = EventBody::ModelRequestStart { model, tool_use_id: None };
            events.push(NewEvent::with_id(span.to_string(), &body));
        }
    }

    /// The calls that the last stored message asks for and that have no answer yet.
    pub(in crate::worker) fn open_calls(&self) -> Vec<ToolCall> {
        match self.agent.step() {
            Step::CallTools(calls) => calls.clone(),
            Step::CallModel { .. } | Step::Exhausted(_) | Step::Finish(_) => Vec::new(),
        }
    }
}

pub(in crate::worker) fn user_message(content: Content) -> Message {
    Message { role: Role::User, content, stop_reason: None, usage: Usage::default() }
}

pub(in crate::worker) fn new_user_message(message: Message) -> NewMessage {
    NewMessage { message_id: MessageId::new().to_string(), model: None, message }
}

pub(in crate::worker) fn idle(outcome: &Outcome) -> NewEvent {
    let output_error = outcome.output.as_ref().and_then(Verdict::error).cloned();
    NewEvent::new(&EventBody::StatusIdle {
        stop_reason: outcome.stop_reason.clone(),
        limited: outcome.limited,
        output_error,
    })
}

pub(in crate::worker) fn empty() -> StepCommit<'static> {
    StepCommit::default()
}

/// Milliseconds since then.
pub(in crate::worker) fn millis(since: Instant) -> i64 {
    i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX)
}
