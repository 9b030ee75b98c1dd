//! One run from its claim to its rest: where the loop's decisions meet IO.

use std::time::Instant;

use super::Worker;
use super::active::Signals;
use super::halt::Halt;
use super::ledger::reply_events;
use super::previews::ReplyIds;
use super::transcript::Transcript;
use crate::agent::history;
use crate::agent::{AgentLoop, Bounds, Finish, Step};
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::{EventId, MessageId, RunId, SessionId};
use crate::domain::message::{Content, Message, Role};
use crate::domain::run::{LimitKind, Limits, Outcome, RunStatus, Usage};
use crate::domain::tool::{ToolCall, ToolChoice};
use crate::model::Reply;
use crate::model::anthropic::{Head, body};
use crate::store::claim::{Claimed, MAX_TAKEOVERS};
use crate::store::messages::list_of_run;
use crate::store::step::{NewMessage, StepCommit, commit};
use crate::tools::ToolContext;
use crate::tools::workspace::Workspace;

/// A run in the hands of a worker.
pub(super) struct Driver<'a> {
    pub(super) worker: &'a Worker,
    pub(super) run: Claimed,
    pub(super) signals: Signals,
    pub(super) context: ToolContext,
    agent: AgentLoop,
    transcript: Transcript,
    limits: Limits,
    claimed_at: Instant,
    usage: Usage,
    /// The event that opened the request in flight.
    span: EventId,
    /// Whether calls may have been touched by an earlier attempt.
    pub(super) is_resumed: bool,
}

/// Drives a run until it settles or must be let go.
pub(super) async fn drive(worker: &Worker, run: Claimed, signals: Signals) {
    let mut driver = Driver::new(worker, run, signals);
    let ended = match driver.run_steps().await {
        Ok(()) => Ok(()),
        Err(halt) => driver.halt(halt).await,
    };
    if let Err(halt) = ended {
        tracing::error!(run.id = %driver.run_id(), ?halt, "a run could not be settled");
    }
    worker
        .transcripts
        .keep(driver.session_id(), driver.transcript);
}

impl<'a> Driver<'a> {
    fn new(worker: &'a Worker, run: Claimed, signals: Signals) -> Self {
        let limits = run.options.limits.or(&run.settings.limits);
        let folder = match &run.workspace {
            Some(folder) => folder.into(),
            None => worker.parts.workspaces.join(run.session_id.to_string()),
        };
        let workspace = Workspace::new(folder);
        Self {
            context: ToolContext {
                workspace,
                stop: signals.lost.child_token(),
            },
            agent: AgentLoop::new(Bounds::from(&limits)),
            transcript: worker.transcripts.take(run.session_id),
            claimed_at: Instant::now(),
            usage: Usage::default(),
            span: EventId::new(),
            is_resumed: false,
            worker,
            run,
            signals,
            limits,
        }
    }

    pub(super) fn run_id(&self) -> RunId {
        self.run.fence.run_id
    }

    pub(super) fn session_id(&self) -> SessionId {
        self.run.session_id
    }

    /// The place of the message that was stored last.
    pub(super) fn last_message_seq(&self) -> i32 {
        self.transcript.seq()
    }

    async fn run_steps(&mut self) -> Result<(), Halt> {
        if self.run.takeovers > MAX_TAKEOVERS {
            return Err(Halt::CrashLoop);
        }
        self.begin().await?;
        let head = Head::new(&self.run.settings, self.worker.parts.use_prompt_cache)?;
        loop {
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

    /// Brings the loop to where the stored messages are, and the user message into the history
    /// if the run begins here.
    async fn begin(&mut self) -> Result<(), Halt> {
        let stored = self.read_stored().await?;
        let running = NewEvent::new(&EventBody::StatusRunning {
            attempt: self.run.fence.attempt,
        });
        if stored.is_empty() {
            let message = NewMessage {
                message_id: self.run.message_id.clone(),
                model: None,
                message: user_message(Content::parse(self.run.input.clone())?),
            };
            let mut events = vec![running];
            self.announce_request(&mut events);
            self.store(
                &[message],
                &StepCommit {
                    events: &events,
                    dequeues: true,
                    ..empty()
                },
            )
            .await
        } else {
            for message in &stored {
                self.usage += message.usage;
            }
            self.agent = AgentLoop::resume(&stored, Bounds::from(&self.limits))?;
            self.is_resumed = true;
            let mut events = vec![running];
            self.announce_request(&mut events);
            // A worker that dies after this has made no progress.
            self.store(
                &[],
                &StepCommit {
                    events: &events,
                    is_progress: false,
                    ..empty()
                },
            )
            .await
        }
    }

    /// Reads what the transcript lacks, and what earlier attempts stored of this run. Most often
    /// that is nothing, and the database is not asked: the claim told how long the history is.
    async fn read_stored(&mut self) -> Result<Vec<Message>, Halt> {
        let is_behind = self.transcript.seq() < self.run.last_message_seq;
        let is_takeover = self.run.fence.attempt > 1;
        if !is_behind && !is_takeover {
            return Ok(Vec::new());
        }
        let mut conn = self.worker.parts.pool.acquire().await?;
        if is_behind {
            let session_id = self.session_id();
            self.transcript.catch_up(&mut conn, session_id).await?;
        }
        if !is_takeover {
            return Ok(Vec::new());
        }
        let stored = list_of_run(&mut conn, self.run_id()).await?;
        Ok(stored.into_iter().map(|stored| stored.message).collect())
    }

    async fn ask(&mut self, head: &Head, choice: &ToolChoice) -> Result<(), Halt> {
        let started = Instant::now();
        let ids = ReplyIds::new();
        let request = body(head, self.transcript.as_bytes(), choice);
        let reply = self.request(request, ids).await?;
        self.take_in(reply, ids, started).await
    }

    /// Stores a reply with all that follows from it.
    async fn take_in(&mut self, reply: Reply, ids: ReplyIds, started: Instant) -> Result<(), Halt> {
        let kept = history::keep(&reply.content, &reply.stop, self.agent.is_final())?;
        let message = Message {
            role: Role::Assistant,
            content: kept.clone().map_or_else(|| Content::from_blocks([]), Ok)?,
            stop_reason: Some(reply.stop.clone()),
            usage: reply.usage,
        };
        self.agent.push(&message)?;
        self.usage += reply.usage;

        let mut events = reply_events(&message.content, ids, self.agent.step())?;
        events.push(NewEvent::new(&EventBody::ModelRequestEnd {
            model_request_start_id: self.span,
            model_usage: reply.usage,
            stop_reason: Some(reply.stop.as_str().to_owned()),
            is_error: false,
            duration_ms: millis(started),
        }));
        events.push(NewEvent::new(&EventBody::Usage { usage: self.usage }));
        let planned: &[ToolCall] = match self.agent.step() {
            Step::CallTools(calls) => &calls.clone(),
            Step::CallModel { .. } | Step::Exhausted(_) | Step::Finish(_) => &[],
        };
        let outcome = self.outcome(&message)?;
        match &outcome {
            Some(outcome) => events.push(idle(outcome)),
            None => self.announce_request(&mut events),
        }
        let messages = kept.map(|_| NewMessage {
            message_id: if reply.id.is_empty() {
                MessageId::new().to_string()
            } else {
                reply.id
            },
            model: Some(reply.model),
            message,
        });
        let settles = outcome
            .as_ref()
            .map(|outcome| (RunStatus::Completed, outcome));
        let step = StepCommit {
            planned,
            events: &events,
            usage: Some(reply.usage),
            settles,
            ..empty()
        };
        self.store(messages.as_slice(), &step).await
    }

    fn outcome(&self, last: &Message) -> Result<Option<Outcome>, Halt> {
        let Step::Finish(Finish {
            stop_reason,
            limited,
        }) = self.agent.step()
        else {
            return Ok(None);
        };
        Ok(Some(Outcome {
            stop_reason: stop_reason.clone(),
            limited: *limited,
            output_text: last.content.joined_text()?,
            error: None,
        }))
    }

    /// Runs the calls of the last reply and stores their results in one message.
    async fn answer(&mut self, calls: &[ToolCall]) -> Result<(), Halt> {
        let answered = self.call_tools(calls).await?;
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
            ..empty()
        };
        self.store(&messages, &step).await
    }

    /// Adds the event that opens the next request, if one comes next.
    fn announce_request(&mut self, events: &mut Vec<NewEvent>) {
        let elapsed = self.run.elapsed + self.claimed_at.elapsed();
        if self
            .limits
            .seconds
            .is_some_and(|seconds| elapsed.as_secs() >= u64::from(seconds))
        {
            self.agent.exhaust(LimitKind::Seconds);
        }
        if matches!(
            self.agent.step(),
            Step::CallModel { .. } | Step::Exhausted(_)
        ) {
            self.span = EventId::new();
            let body = EventBody::ModelRequestStart {
                model: self.run.settings.model.clone(),
            };
            events.push(NewEvent::with_id(self.span.to_string(), &body));
        }
    }

    /// The calls that the last stored message asks for and that have no answer yet.
    pub(super) fn open_calls(&self) -> Vec<ToolCall> {
        match self.agent.step() {
            Step::CallTools(calls) => calls.clone(),
            Step::CallModel { .. } | Step::Exhausted(_) | Step::Finish(_) => Vec::new(),
        }
    }

    /// Stores events, and nothing else, as a step.
    pub(super) async fn tell(&mut self, events: &[NewEvent]) -> Result<(), Halt> {
        self.store(&[], &StepCommit { events, ..empty() }).await
    }

    /// Commits a step, tells readers of it, and keeps the transcript in line with the history.
    pub(super) async fn store(
        &mut self,
        messages: &[NewMessage],
        step: &StepCommit<'_>,
    ) -> Result<(), Halt> {
        if self.signals.lost.is_cancelled() {
            return Err(Halt::LeaseLost);
        }
        let step = StepCommit { messages, ..*step };
        let mut conn = self.worker.parts.pool.acquire().await?;
        let committed = commit(&mut conn, self.run.session_id, self.run.fence, &step).await?;
        conn.give_back();
        let committed = committed.ok_or(Halt::LeaseLost)?;
        self.worker
            .parts
            .bus
            .publish(self.run.session_id, committed.frames);
        for message in messages {
            self.transcript
                .push(message.message.role, message.message.content.as_str());
        }
        Ok(())
    }
}

pub(super) fn user_message(content: Content) -> Message {
    Message {
        role: Role::User,
        content,
        stop_reason: None,
        usage: Usage::default(),
    }
}

pub(super) fn new_user_message(message: Message) -> NewMessage {
    NewMessage {
        message_id: MessageId::new().to_string(),
        model: None,
        message,
    }
}

pub(super) fn idle(outcome: &Outcome) -> NewEvent {
    let stop_reason = outcome.stop_reason.clone();
    NewEvent::new(&EventBody::StatusIdle {
        stop_reason,
        limited: outcome.limited,
    })
}

fn empty() -> StepCommit<'static> {
    StepCommit::default()
}

/// Milliseconds since then.
pub(super) fn millis(since: Instant) -> i64 {
    i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX)
}
