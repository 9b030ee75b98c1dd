//! The outcome of a run, and the event that reports it.

use super::context::RunContext;
use super::stop_cause::StopCause;
use crate::agent::Finish;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::message::Message;
use crate::domain::outcome::Outcome;
use crate::domain::output_schema::OutputVerdict;
use crate::domain::stop_reason::{Refusal, StopReason};
use crate::domain::storable::without_nul;

/// The outcome of a run whose last message is this one.
pub(super) fn outcome(
    run: &RunContext<'_>,
    finish: &Finish,
    last: &Message,
    refusal: Refusal,
) -> Result<Outcome, StopCause> {
    let Finish { mut stop_reason, limited } = finish.clone();
    if let StopReason::Refusal(details) = &mut stop_reason {
        details.category = refusal.category.map(without_nul);
        details.explanation = refusal.explanation.map(without_nul);
    }
    let output_text = last.content.joined_text()?;
    let schema = run.settings().model_options.output_schema.as_deref();
    Ok(Outcome {
        stop_reason,
        limited,
        output: schema.map(|schema| OutputVerdict::of(schema, &output_text)),
        output_text,
        error: None,
    })
}

/// The event that reports the end of a run.
pub(super) fn idle_event(outcome: &Outcome) -> NewEvent {
    let output_error = outcome.output.as_ref().and_then(OutputVerdict::error).cloned();
    NewEvent::new(&EventBody::StatusIdle {
        stop_reason: outcome.stop_reason.clone(),
        limited: outcome.limited,
        output_error,
    })
}
