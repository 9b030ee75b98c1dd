//! Suspension of a run whose calls wait for an approval or for the client. No worker holds the run
//! until they are answered.

use super::plan::{HeldCall, ToolRound};
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::permission::Awaits;
use crate::domain::stop_reason::StopReason;
use crate::domain::storable::without_nul;
use crate::domain::tool::{CallState, ToolCall};
use crate::faults::{self, Point};
use crate::store::step::{CallRecord, NewWait, StepCommit};
use crate::tools::ToolContext;
use crate::tools::workspace::hash;
use crate::worker::run::context::RunContext;
use crate::worker::run::step_writer::StepWriter;
use crate::worker::run::stop_cause::StopCause;

/// Suspends the run, and stores the results so far in the same step. Returns the cause for which the
/// run is no longer driven.
pub(super) async fn suspend(
    run: &RunContext<'_>,
    writer: &mut StepWriter<'_>,
    context: &ToolContext,
    mut round: ToolRound<'_>,
) -> Result<StopCause, StopCause> {
    let held = round.held();
    let event_ids = held.iter().map(|held| held.call.tool_use_id.clone()).collect();
    let stop_reason = StopReason::RequiresAction { event_ids };
    let mut records = round.take_records();
    for held in held {
        if !round.is_recorded_as_waiting(held.call) {
            records.push(wait_record(run, context, held).await);
        }
    }
    let mut events = std::mem::take(&mut round.unstored.events);
    events.push(NewEvent::new(&EventBody::StatusIdle {
        stop_reason: stop_reason.clone(),
        limited: None,
        output_error: None,
    }));
    let step = StepCommit {
        recorded_message_seq: writer.last_message_seq(),
        recorded: &records,
        events: &events,
        state_changes: &round.unstored.state_changes,
        waits: Some(&stop_reason),
        ..StepCommit::default()
    };
    writer.store(&[], &step).await?;
    faults::point(Point::Suspended).await;
    Ok(StopCause::Suspended)
}

/// The ledger record of a call that begins to wait.
async fn wait_record(
    run: &RunContext<'_>,
    context: &ToolContext,
    HeldCall { call, hold }: HeldCall<'_>,
) -> CallRecord {
    let diff = match hold.awaits {
        Awaits::Approval => diff(run, context, call).await,
        Awaits::Client => None,
    };
    let (reason, diff) = (hold.reason.map(without_nul), diff.map(without_nul));
    let within = run.services.policy.answer_within;
    CallRecord {
        wait: Some(NewWait { awaits: hold.awaits, within, reason, diff }),
        input_hash: Some(hash(call.input.get().as_bytes())),
        ..CallRecord::new(&call.tool_use_id, CallState::Planned)
    }
}

/// The change of a file that a call would make, for the person who decides on it.
async fn diff(run: &RunContext<'_>, context: &ToolContext, call: &ToolCall) -> Option<String> {
    let context = context.of_call(&call.tool_use_id);
    run.services.tools.diff(&context, &call.name, &call.input).await
}
