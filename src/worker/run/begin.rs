//! The beginning of a run: the stored messages, the user message and the permission mode.

use super::messages::first_message;
use super::resume::read_history;
use super::state::RunState;
use super::stop_cause::StopCause;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::message::Role;
use crate::domain::state_change::StateChange;
use crate::domain::suspicion::CRASH_LOOP_AFTER;
use crate::store::step::StepCommit;
use crate::worker::model_call::ModelCalls;

/// Brings the loop to the stored messages, and the user message into the history if it is not
/// there.
pub(super) async fn begin(
    state: &mut RunState<'_>,
    model: &mut ModelCalls<'_>,
) -> Result<(), StopCause> {
    let run = state.run;
    let claim = &run.claim;
    if let Some(start_event) = claim.begun {
        model.continue_request(start_event);
        return begin_accepted(state).await;
    }
    let attempt = claim.fence.attempt;
    read_history(state, attempt > 1).await?;
    // Checked only now: to settle a run, the stored messages must be known.
    if claim.takeovers >= CRASH_LOOP_AFTER {
        return Err(StopCause::CrashLoop);
    }
    // A run that was claimed only to settle it must not run a call that waited for an approval.
    if claim.is_cancelled {
        return Err(StopCause::Cancelled);
    }
    if attempt > 1 {
        tracing::info!(run.id = %state.run.run_id(), attempt, "run taken over");
    }
    let mut events = vec![NewEvent::new(&EventBody::StatusRunning { attempt })];
    model.announce(&mut state.progress, &mut events);
    if state.writer.is_begun() {
        // A worker that stops after this step has made no progress.
        let step = StepCommit { events: &events, is_progress: false, ..Default::default() };
        return state.writer.store(&[], &step).await;
    }
    let step = StepCommit { events: &events, dequeues: true, ..Default::default() };
    let message = first_message(claim)?;
    state.writer.store(&[message], &step).await?;
    state.writer.reload_files().await
}

/// Continues a run that began when its message was accepted, or begins while it is being accepted.
/// In most cases that message is the only one that the transcript does not have.
async fn begin_accepted(state: &mut RunState<'_>) -> Result<(), StopCause> {
    let (claim, writer) = (&state.run.claim, &mut state.writer);
    if writer.starts_early() {
        return Ok(());
    }
    writer.finish().await?;
    if writer.last_message_seq() + 1 == writer.claimed_seq() && !claim.has_files() {
        writer.transcript.push(Role::User, &claim.input);
        return Ok(());
    }
    read_history(state, false).await
}

/// Leaves the thinking of another model out of all requests from here on. A model that cannot read it
/// ignores it at best, and its server counts it as input.
pub(super) async fn enter_model(state: &mut RunState<'_>) -> Result<(), StopCause> {
    let run = state.run;
    let transcript = &state.writer.transcript;
    if !transcript.is_answered_by_another(&run.settings().model) {
        return Ok(());
    }
    let Some(change) = transcript.without_thinking() else { return Ok(()) };
    run.services.metrics.sent_changed(&change);
    tracing::info!(
        session.id = %run.session_id(), run.id = %run.run_id(), ?change,
        "thinking of another model left out of further requests"
    );
    let (events, state_changes) =
        ([NewEvent::new(&EventBody::sent(change.clone()))], [StateChange::SentHistory(change)]);
    let step = StepCommit { events: &events, state_changes: &state_changes, ..Default::default() };
    state.writer.store(&[], &step).await?;
    state.writer.reload_transcript().await
}

/// Sets the permission mode of the message, which is in force from its first request on.
pub(super) async fn enter_mode(state: &mut RunState<'_>) -> Result<(), StopCause> {
    let Some(mode) = state.run.claim.options.permission_mode else { return Ok(()) };
    let is_set = state.writer.permission_mode() == Some(mode);
    if is_set || !state.progress.is_at_first_request() {
        return Ok(());
    }
    let (events, state_changes) =
        ([NewEvent::new(&EventBody::mode(mode))], [StateChange::PermissionMode(mode)]);
    let step = StepCommit { events: &events, state_changes: &state_changes, ..Default::default() };
    state.writer.store(&[], &step).await
}
