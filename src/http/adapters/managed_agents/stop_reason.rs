//! The reasons why a session became idle, in the form of this protocol.

use serde_json::{Value, json};

use crate::domain::stop_reason::StopReason;

/// The members `stop_reason` and `stop_details` of `session.status_idle`. An end that the protocol does
/// not know is `end_turn` with the reason of the service as `reason`.
pub(super) fn stop_members(reason: StopReason) -> (Value, Value) {
    let ended = |reason: &str| json!({ "type": "end_turn", "reason": reason });
    let stop_reason = match reason {
        StopReason::EndTurn => json!({ "type": "end_turn" }),
        StopReason::StopSequence { .. } => ended("stop_sequence"),
        StopReason::MaxTokens => ended("max_tokens"),
        StopReason::ModelContextWindowExceeded => ended("model_context_window_exceeded"),
        StopReason::Cancelled => ended("cancelled"),
        StopReason::Unknown { model_stop_reason } => ended(&model_stop_reason),
        StopReason::RetriesExhausted | StopReason::Error => json!({ "type": "retries_exhausted" }),
        StopReason::BudgetExceeded { .. } => json!({ "type": "budget_reached" }),
        StopReason::RequiresAction { event_ids } => {
            json!({ "type": "requires_action", "event_ids": event_ids })
        }
        StopReason::Refusal(refusal) => {
            let details = json!({
                "type": "refusal", "category": refusal.category, "explanation": refusal.explanation,
            });
            return (json!({ "type": "refusal" }), details);
        }
    };
    (stop_reason, Value::Null)
}
