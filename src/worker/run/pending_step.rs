//! A step, or the message of the run, that is being committed while the run goes on.
//!
//! Only the next request to the model may go on: it needs the messages and not
//! the commit.
//! What follows from its reply waits for the commit: previews, the next step, and the end of the run.
//! If the commit fails, the request is aborted.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::poll;

use super::step_writing::StepWriting;
use super::stop_cause::StopCause;
use crate::domain::claim::Claimed;
use crate::domain::event::NewEvent;
use crate::domain::permission::PermissionMode;
use crate::domain::request::RequestRecord;
use crate::domain::run_status::RunStatus;
use crate::domain::state_change::StateChange;
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::faults::{self, Point};
use crate::store::step::{CallRecord, Committed, NewMessage, StepCommit};

/// A step that owns what it stores. See [`StepCommit`] for the members.
#[derive(Debug, Default)]
pub(in crate::worker) struct OwnedStep {
    pub(in crate::worker) messages: Vec<NewMessage>,
    pub(in crate::worker) planned: Vec<ToolCall>,
    pub(in crate::worker) recorded_message_seq: i32,
    pub(in crate::worker) recorded: Vec<CallRecord>,
    pub(in crate::worker) events: Vec<NewEvent>,
    pub(in crate::worker) reply_events: Option<usize>,
    pub(in crate::worker) usage: Option<Usage>,
    pub(in crate::worker) request: Option<RequestRecord>,
    pub(in crate::worker) state_changes: Vec<StateChange>,
}

impl OwnedStep {
    pub(super) fn borrowed(&self) -> StepCommit<'_> {
        StepCommit {
            messages: &self.messages,
            planned: &self.planned,
            recorded_message_seq: self.recorded_message_seq,
            recorded: &self.recorded,
            events: &self.events,
            reply_events: self.reply_events,
            usage: self.usage,
            request: self.request.as_ref(),
            state_changes: &self.state_changes,
            ..StepCommit::default()
        }
    }
}

/// The consequences that a committed step has for its run.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepEffects {
    pub(super) settles: Option<RunStatus>,
    pub(super) permission_mode: Option<PermissionMode>,
    pub(super) dequeues: bool,
    pub(super) is_progress: bool,
}

impl StepEffects {
    pub(super) fn of(step: &StepCommit<'_>) -> Self {
        Self {
            settles: step.settles.map(|(status, _)| status),
            permission_mode: new_mode(step.state_changes),
            dequeues: step.dequeues,
            is_progress: step.is_progress,
        }
    }
}

/// The permission mode that a step sets, if it does.
fn new_mode(state_changes: &[StateChange]) -> Option<PermissionMode> {
    state_changes.iter().rev().find_map(|change| match change {
        StateChange::PermissionMode(mode) => Some(*mode),
        StateChange::FileRead { .. }
        | StateChange::Todos(_)
        | StateChange::AnnouncedToolLists(_)
        | StateChange::SentHistory(_)
        | StateChange::Compacted(_)
        | StateChange::Container(_) => None,
    })
}

/// The acceptance of the message of a run that has started early: the run as it was claimed, or `None`
/// if there is no such run.
pub(in crate::worker) type Acceptance<'a> = BoxFuture<'a, Option<Box<Claimed>>>;

/// The result of a commit.
pub(super) enum Commit {
    Step(Committed),
    /// The message of the run was accepted.
    Accepted(Box<Claimed>),
}

/// A step that is being committed, or the message of the run.
pub(super) struct PendingStep<'a> {
    /// In a mutex, which is never locked, because the future alone cannot be shared between threads.
    committed: Mutex<BoxFuture<'a, Result<Commit, StopCause>>>,
    /// The result, once the commit has ended.
    ended: Option<Result<Commit, StopCause>>,
    pub(super) effects: StepEffects,
}

impl fmt::Debug for PendingStep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingStep").field("effects", &self.effects).finish_non_exhaustive()
    }
}

impl<'a> PendingStep<'a> {
    pub(super) fn new(writing: StepWriting<'a>, step: OwnedStep) -> Self {
        let effects = StepEffects::of(&step.borrowed());
        let committed = async move {
            let committed = writing.commit(&step.borrowed()).await?;
            faults::point(Point::ResultsStored).await;
            Ok(Commit::Step(committed))
        };
        Self { committed: Mutex::new(committed.boxed()), ended: None, effects }
    }

    /// The acceptance of the run's message.
    pub(super) fn acceptance(acceptance: Acceptance<'a>) -> Self {
        let accepted = async move {
            let claim = acceptance.await.ok_or(StopCause::NotAccepted)?;
            Ok(Commit::Accepted(claim))
        };
        let effects = StepEffects::of(&StepCommit::default());
        Self { committed: Mutex::new(accepted.boxed()), ended: None, effects }
    }

    /// Begins the commit, whose statement is sent at once if a connection is free.
    pub(super) async fn start(&mut self) {
        if let Poll::Ready(ended) = poll!(self.future()) {
            self.ended = Some(ended);
        }
    }

    /// The result of the commit. Cancel safe; must not be called again after it has returned.
    pub(super) async fn committed(&mut self) -> Result<Commit, StopCause> {
        match self.ended.take() {
            Some(ended) => ended,
            None => self.future().await,
        }
    }

    fn future(&mut self) -> &mut BoxFuture<'a, Result<Commit, StopCause>> {
        self.committed.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}
