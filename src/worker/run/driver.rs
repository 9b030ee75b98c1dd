//! The driver of a run: it asks the agent loop for the next action and has the parts of the
//! worker execute it, until the run settles or must be released.

use std::time::Instant;

use super::begin::{begin, enter_mode, enter_model};
use super::context::RunContext;
use super::messages::{new_user_message, reply_id, user_message};
use super::outcome::{idle_event, outcome};
use super::pending_step::{Acceptance, OwnedStep};
use super::signals::Signals;
use super::slot::Slot;
use super::state::RunState;
use super::stop_cause::StopCause;
use super::tool_lists::ToolListWatch;
use crate::agent::Step;
use crate::agent::history::{self, ReplyMode};
use crate::domain::claim::Claimed;
use crate::domain::container::Container;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::message::{Content, Message, Role};
use crate::domain::outcome::Outcome;
use crate::domain::run_status::RunStatus;
use crate::domain::sent_history::SentHistoryChange;
use crate::domain::state_change::StateChange;
use crate::domain::tool::{ToolCall, ToolChoice};
use crate::faults::{self, Point};
use crate::model::Reply;
use crate::spans::OpenSpan;
use crate::store::step::{NewMessage, StepCommit};
use crate::worker::compaction::Compactor;
use crate::worker::model_call::parameters::{ReplyIds, RequestParameters};
use crate::worker::model_call::reply_events::reply_events;
use crate::worker::model_call::truncated_call::TimedReply;
use crate::worker::model_call::{ModelCalls, RequestEnd};
use crate::worker::services::Services;
use crate::worker::time::millis_since;
use crate::worker::tool_round::execute::ToolRunner;
use crate::worker::tool_round::images::History;
use crate::worker::tool_round::plan::RoundResults;
use crate::worker::tool_round::quick_calls::QuickCalls;

/// A run and the parts that execute it.
pub(super) struct Driver<'a> {
    pub(super) run: &'a RunContext<'a>,
    pub(super) state: RunState<'a>,
    pub(super) model: ModelCalls<'a>,
    pub(super) tools: ToolRunner<'a>,
    /// The calls of the last reply, if they were started before it was stored.
    pub(super) quick: Option<QuickCalls>,
    compactor: Compactor,
    tool_lists: ToolListWatch,
}

/// The end of a run in this process.
#[derive(Debug, Clone, Copy)]
pub(in crate::worker) struct Driven {
    /// True if another run of the session waits for this one.
    pub(in crate::worker) others_wait: bool,
    /// True if this driver has settled the run with an answer of the model.
    pub(in crate::worker) has_completed: bool,
}

/// The claim of a run to drive.
pub(in crate::worker) struct DrivenClaim<'a> {
    /// The claim, or what it is expected to be.
    pub(in crate::worker) claim: Claimed,
    /// The actual claim of a run that starts while its message is being accepted.
    pub(in crate::worker) acceptance: Option<Acceptance<'a>>,
}

/// Drives a run until it settles or must be released.
pub(in crate::worker) async fn drive(
    services: &Services,
    DrivenClaim { claim, acceptance }: DrivenClaim<'_>,
    signals: Signals,
    slot: &mut Slot,
    span: Option<&mut OpenSpan>,
) -> Driven {
    let run = RunContext::new(services, claim, signals);
    let mut driver = Driver {
        run: &run,
        state: RunState::new(&run, acceptance, slot),
        model: ModelCalls::new(&run),
        tools: ToolRunner::new(&run),
        quick: None,
        compactor: Compactor::default(),
        tool_lists: ToolListWatch::default(),
    };
    let mut has_completed = false;
    let ended = match driver.run().await {
        Ok(()) => {
            has_completed = true;
            Ok(())
        }
        Err(cause) => {
            if let (Some(span), Some(class)) = (span, cause.failure_class()) {
                span.fail(class);
            }
            Box::pin(driver.end(cause)).await
        }
    };
    if let Err(cause) = ended {
        tracing::error!(run.id = %run.run_id(), ?cause, "run could not be settled");
    }
    let writer = driver.state.writer;
    let others_wait = writer.others_wait();
    if let Some(transcript) = writer.into_transcript() {
        services.transcripts.insert(run.session_id(), transcript);
    }
    Driven { others_wait, has_completed }
}

impl Driver<'_> {
    /// Drives the run, and starts again if the messages that it has started with are not those of the
    /// session.
    async fn run(&mut self) -> Result<(), StopCause> {
        let ended = self.run_steps().await;
        if !matches!(ended, Err(StopCause::OtherHistory | StopCause::OtherSettings)) {
            return ended;
        }
        self.model.discard_request();
        if matches!(ended, Err(StopCause::OtherSettings)) {
            return ended;
        }
        Box::pin(self.run_steps()).await
    }

    async fn run_steps(&mut self) -> Result<(), StopCause> {
        faults::point(Point::Claimed).await;
        // Large futures are boxed: all runs that wait for the model would hold their memory.
        Box::pin(begin(&mut self.state, &mut self.model)).await?;
        self.run.models.check_provider()?;
        enter_mode(&mut self.state).await?;
        enter_model(&mut self.state).await?;
        let head = self.run.model_head()?;
        Box::pin(self.compactor.compact(&mut self.state, &mut self.model, head)).await?;
        loop {
            self.state.progress.stop_if_draining()?;
            self.state.share_slot().await?;
            if self.tool_lists.is_due(&self.state) {
                // The report waits for a connection, and a step goes on only while it is polled.
                self.state.writer.finish().await?;
                Box::pin(self.tool_lists.report(&mut self.state)).await?;
            }
            match self.state.progress.agent.step().clone() {
                Step::CallModel { is_first: true } => {
                    self.call_model(&self.run.first_choice()).await?;
                }
                Step::CallModel { is_first: false } => {
                    self.call_model(&self.run.later_choice()).await?;
                }
                Step::Exhausted(_) => self.call_model(&ToolChoice::None).await?,
                Step::CallTools(calls) => Box::pin(self.call_tools(&calls)).await?,
                Step::Finish(_) => return Ok(()),
            }
        }
    }

    /// Asks the model and stores its reply, or ends the request at the limit of seconds.
    async fn call_model(&mut self, choice: &ToolChoice) -> Result<(), StopCause> {
        let ended = self.ask(choice).await;
        self.model.end_at_time_limit(&mut self.state, ended).await
    }

    async fn ask(&mut self, choice: &ToolChoice) -> Result<(), StopCause> {
        let started = Instant::now();
        let ids = ReplyIds::new();
        let (head, model) = (self.run.model_head()?, self.run.models.position());
        let parameters = RequestParameters { head, model, choice, max_tokens: None, ids };
        let (state, model) = (&mut self.state, &mut self.model);
        let reply = self.compactor.reply(state, model, parameters).await?;
        faults::point(Point::ReplyRead).await;
        let timed = TimedReply { reply, started };
        let timed = Box::pin(model.retry_truncated_call(state, timed, parameters)).await?;
        let TimedReply { reply, started } =
            Box::pin(model.retry_silent_answer(state, timed, parameters)).await?;
        self.store_reply(reply, ids, started).await
    }

    /// Stores a reply with all that follows from it, and with the results of its calls if they are
    /// available at once.
    async fn store_reply(
        &mut self,
        reply: Reply,
        ids: ReplyIds,
        started: Instant,
    ) -> Result<(), StopCause> {
        let progress = &mut self.state.progress;
        let agent = &mut progress.agent;
        let mode = ReplyMode { is_final: agent.is_final(), may_pause: agent.may_pause() };
        let kept = history::kept_blocks(&reply.content, &reply.stop, mode)?;
        let message = Message {
            role: Role::Assistant,
            content: kept.clone().map_or_else(|| Content::from_blocks([]), Ok)?,
            stop_reason: Some(reply.stop.clone()),
            usage: self.model.usage_of(&reply),
        };
        agent.push(&message)?;
        let request = self.model.record_reply(progress, &reply);
        let planned = progress.open_calls();
        let message_id = reply_id(reply.id.clone());
        let calls = self.tools.call_events(&self.state, &planned, &message_id)?;
        let mut events = reply_events(&message, &message_id, reply.compaction, ids, calls)?;
        let duration_ms = millis_since(started);
        let end = RequestEnd { duration_ms, ..RequestEnd::of(&reply) };
        events.extend(self.model.end_event(&end));
        let foreign = self.foreign_thinking(kept.as_ref());
        events.extend(foreign.iter().map(|change| NewEvent::new(&EventBody::sent(change.clone()))));
        let of_reply = Some(events.len());
        // Boxed, because the future is large and a run waits most of the time for the model.
        let mut round = Box::pin(self.results_at_once(&planned)).await?;
        events.append(&mut round.events);
        let results = self.push_results(&round)?;

        let progress = &mut self.state.progress;
        let outcome = match progress.agent.step() {
            Step::Finish(finish) => Some(outcome(self.run, finish, &message, reply.refusal)?),
            Step::CallModel { .. } | Step::CallTools(_) | Step::Exhausted(_) => None,
        };
        match &outcome {
            Some(outcome) => events.extend([progress.usage_event(), idle_event(outcome)]),
            None => self.model.announce(progress, &mut events),
        }
        let usage = message.usage;
        let container = reply.container.clone();
        let mut state_changes = with_container(round.state_changes, container.as_ref());
        state_changes.extend(foreign.map(StateChange::SentHistory));
        let reply = kept.map(|_| NewMessage { message_id, model: Some(reply.model), message });
        let step = OwnedStep {
            planned,
            recorded: round.records,
            events,
            reply_events: of_reply.filter(|_| results.is_some()),
            usage: Some(usage),
            request,
            state_changes,
            messages: reply.into_iter().chain(results).collect(),
            recorded_message_seq: 0,
        };
        self.commit_reply(step, outcome.as_ref()).await?;
        self.state.writer.transcript.set_answered_by(&self.run.settings().model);
        if let Some(container) = container {
            self.state.writer.transcript.set_container(container);
        }
        Ok(())
    }

    /// The change that leaves the thinking of a fallback model out of later requests to the model of
    /// the session. The transcript of this run does not have it: the fallback model gets its thinking
    /// back.
    fn foreign_thinking(&self, reply: Option<&Content>) -> Option<SentHistoryChange> {
        let reply = reply.filter(|_| self.run.has_fallen_back())?;
        let is_sent = self.run.models.session_would_send_thinking(reply.as_str());
        let up_to = self.state.writer.last_message_seq() + 1;
        is_sent.then_some(SentHistoryChange::ThinkingDropped { up_to })
    }

    /// Commits a step with a reply. The model is not asked meanwhile, even if the step has the results of
    /// all calls: a crash then loses one reply, not two.
    async fn commit_reply(
        &mut self,
        step: OwnedStep,
        outcome: Option<&Outcome>,
    ) -> Result<(), StopCause> {
        let writer = &mut self.state.writer;
        let settles = outcome.map(|outcome| (RunStatus::Completed, outcome));
        writer.store(&step.messages, &StepCommit { settles, ..step.borrowed() }).await
    }

    /// The results of the calls of a reply that is not stored yet, if all of them are quick.
    async fn results_at_once(&mut self, calls: &[ToolCall]) -> Result<RoundResults, StopCause> {
        let Some(mut quick) = self.tools.start_quick(&self.state, calls)? else {
            return Ok(RoundResults::default());
        };
        if !quick.end_soon(self.run).await {
            self.quick = Some(quick);
            return Ok(RoundResults::default());
        }
        faults::point(Point::RoundReady).await;
        let round = quick.into_results(calls, History::of(self.run, &self.state.writer));
        Ok(round.with_references(calls, self.run.settings()))
    }

    /// Executes the calls of the last reply and stores their results in one message.
    async fn call_tools(&mut self, calls: &[ToolCall]) -> Result<(), StopCause> {
        let quick = self.quick.take();
        let round = self.tools.execute(&mut self.state, &mut self.model, calls, quick).await?;
        faults::point(Point::ResultsReady).await;
        let message = self.push_results(&round)?;
        let mut events = round.events;
        let (state, model) = (&mut self.state, &mut self.model);
        model.announce(&mut state.progress, &mut events);
        let step = OwnedStep {
            messages: message.into_iter().collect(),
            recorded_message_seq: state.writer.last_message_seq(),
            recorded: round.records,
            events,
            state_changes: round.state_changes,
            ..OwnedStep::default()
        };
        state.writer.begin(step).await
    }

    /// Adds the results of a round to the loop. Returns their message, if there are any.
    fn push_results(&mut self, round: &RoundResults) -> Result<Option<NewMessage>, StopCause> {
        if round.results.is_empty() {
            return Ok(None);
        }
        let progress = &mut self.state.progress;
        progress.is_resumed = false;
        let message = user_message(history::results(&round.results)?);
        progress.agent.push(&message)?;
        Ok(Some(new_user_message(message)))
    }
}

/// The changes of a round, and that of the container that the reply before it names.
fn with_container(
    mut state_changes: Vec<StateChange>,
    container: Option<&Container>,
) -> Vec<StateChange> {
    state_changes.extend(container.cloned().map(|named| StateChange::Container(Some(named))));
    state_changes
}
