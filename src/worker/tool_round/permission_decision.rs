//! The decision on a call by its ledger row, before the permission policy is evaluated.

use serde_json::value::RawValue;

use crate::domain::call_end::EndReason;
use crate::domain::permission::{Awaits, Decision};
use crate::domain::tool::{CallState, ToolCall};
use crate::domain::tool_error::ToolErrorType;
use crate::store::tool_calls::{LedgerRow, Wait};
use crate::tools::workspace::hash;
use crate::worker::run::stop_cause::StopCause;

/// The decision on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GateDecision {
    /// The call runs.
    Run,
    /// The call is answered without being executed.
    End(Refusal),
    /// The call waits, for this reason.
    Wait(Awaits, Option<String>),
    /// The policy decides.
    Evaluate,
}

/// The answer to a call that is not executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) state: CallState,
    pub(super) reason: EndReason,
    pub(super) text: String,
    pub(super) error_type: Option<ToolErrorType>,
}

impl Refusal {
    /// The answer to a denied call.
    pub(super) fn denied(reason: EndReason, text: impl Into<String>) -> Self {
        Self { state: CallState::Denied, reason, text: text.into(), error_type: None }
    }
}

/// The answer to a call that an approver denied.
const DENIED: &str = "The approver denied this call, and it did not run.";
/// The answer to a call without a decision at its deadline.
const UNDECIDED: &str =
    "The approval of this call was not decided before its deadline, so the call did not run.";
/// The answer to a call of a client's tool without a result at its deadline.
const UNANSWERED: &str = "The client sent no result in time. It may have executed the call.";
/// The answer to a call whose input is not the input that the approver saw.
const NOT_APPROVED: &str = "This call did not run: its input is not the one that was approved.";

/// Decides on a call without a result by its ledger row. `default` decides on an approval whose
/// deadline has passed.
pub(super) fn decide(call: &ToolCall, row: Option<&LedgerRow>, default: Decision) -> GateDecision {
    let Some(row) = row else { return GateDecision::Evaluate };
    if row.state == CallState::Started {
        return GateDecision::Run;
    }
    let Some(wait) = &row.wait else { return GateDecision::Evaluate };
    match (wait.awaits, wait.decision) {
        (awaits, None) if !wait.is_overdue => GateDecision::Wait(awaits, None),
        (Awaits::Client, _) => GateDecision::End(Refusal {
            state: CallState::Failed,
            reason: EndReason::ResultExpired,
            text: UNANSWERED.to_owned(),
            error_type: Some(ToolErrorType::Timeout),
        }),
        (Awaits::Approval, Some(Decision::Allow)) if !is_approved_input(call, wait) => {
            GateDecision::End(Refusal::denied(EndReason::InputNotApproved, NOT_APPROVED))
        }
        (Awaits::Approval, Some(Decision::Allow)) => GateDecision::Run,
        (Awaits::Approval, Some(Decision::Deny)) => {
            let reason = wait.message.as_deref().unwrap_or_default();
            let text = format!("{DENIED} {reason}");
            GateDecision::End(Refusal::denied(EndReason::DeniedByApprover, text.trim_end()))
        }
        (Awaits::Approval, None) => match default {
            Decision::Allow => GateDecision::Run,
            Decision::Deny => {
                GateDecision::End(Refusal::denied(EndReason::ApprovalExpired, UNDECIDED))
            }
        },
    }
}

/// True for a call that has not started and was approved by a person.
pub(super) fn is_approved_by_person(row: Option<&LedgerRow>) -> bool {
    row.is_some_and(|row| row.state == CallState::Planned && row.wait.is_some())
}

fn is_approved_input(call: &ToolCall, wait: &Wait) -> bool {
    wait.input_hash.as_deref() == Some(hash(call.input.get().as_bytes()).as_slice())
}

/// The calls, with edited inputs in place of those of the model.
pub(super) fn with_edited_inputs(
    calls: &[ToolCall],
    ledger: &[LedgerRow],
) -> Result<Vec<ToolCall>, StopCause> {
    let edited = |call: &ToolCall| {
        let row = ledger.iter().find(|row| row.tool_use_id == call.tool_use_id)?;
        row.wait.as_ref()?.input.clone()
    };
    let with_input = |call: &ToolCall| {
        let input = match edited(call) {
            Some(input) => RawValue::from_string(input)?,
            None => call.input.clone(),
        };
        Ok(ToolCall { input, ..call.clone() })
    };
    calls.iter().map(with_input).collect()
}

/// The note before the result of a call whose input was edited.
pub(super) fn edited_note(input: &str) -> String {
    format!("[The input was changed before the call ran. It ran with {input}]\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(input: &str) -> ToolCall {
        ToolCall {
            tool_use_id: "toolu_1".to_owned(),
            name: "Bash".to_owned(),
            input: RawValue::from_string(input.to_owned()).unwrap(),
        }
    }

    fn row(wait: Option<Wait>) -> LedgerRow {
        LedgerRow {
            tool_use_id: "toolu_1".to_owned(),
            state: CallState::Planned,
            hash_before: None,
            hash_after: None,
            change: None,
            result: None,
            content: None,
            error_type: None,
            wait,
            sub_agent_run: None,
        }
    }

    fn wait(awaits: Awaits, decision: Option<Decision>) -> Wait {
        Wait {
            awaits,
            decision,
            message: None,
            input: None,
            input_hash: Some(hash(b"{}")),
            is_overdue: false,
        }
    }

    fn decide_on(wait: Wait) -> GateDecision {
        decide(&call("{}"), Some(&row(Some(wait))), Decision::Deny)
    }

    fn denied(reason: EndReason, text: &str) -> GateDecision {
        GateDecision::End(Refusal::denied(reason, text))
    }

    #[test]
    fn a_call_without_a_decision_is_evaluated_by_the_policy() {
        assert_eq!(decide(&call("{}"), None, Decision::Deny), GateDecision::Evaluate);
        assert_eq!(decide(&call("{}"), Some(&row(None)), Decision::Deny), GateDecision::Evaluate);
    }

    #[test]
    fn a_call_that_has_started_is_not_evaluated_again() {
        let started = LedgerRow { state: CallState::Started, ..row(None) };
        assert_eq!(decide(&call("{}"), Some(&started), Decision::Deny), GateDecision::Run);
    }

    #[test]
    fn an_undecided_call_waits_until_its_deadline() {
        for awaits in [Awaits::Approval, Awaits::Client] {
            assert_eq!(decide_on(wait(awaits, None)), GateDecision::Wait(awaits, None));
        }
        let overdue = Wait { is_overdue: true, ..wait(Awaits::Approval, None) };
        assert_eq!(decide_on(overdue.clone()), denied(EndReason::ApprovalExpired, UNDECIDED));
        let row = row(Some(overdue));
        assert_eq!(decide(&call("{}"), Some(&row), Decision::Allow), GateDecision::Run);
        let unanswered = Wait { is_overdue: true, ..wait(Awaits::Client, None) };
        let timeout = Some(ToolErrorType::Timeout);
        let (state, text) = (CallState::Failed, UNANSWERED.to_owned());
        let reason = EndReason::ResultExpired;
        let expected = GateDecision::End(Refusal { state, reason, text, error_type: timeout });
        assert_eq!(decide_on(unanswered), expected);
    }

    #[test]
    fn a_decision_in_time_holds_after_the_deadline() {
        let late = |decision| Wait { is_overdue: true, ..wait(Awaits::Approval, Some(decision)) };
        assert_eq!(decide_on(late(Decision::Allow)), GateDecision::Run);
        assert_eq!(decide_on(late(Decision::Deny)), denied(EndReason::DeniedByApprover, DENIED));
    }

    #[test]
    fn a_denial_is_reported_with_its_reason() {
        let denial = Wait {
            message: Some("Not on a Friday.".to_owned()),
            ..wait(Awaits::Approval, Some(Decision::Deny))
        };
        assert_eq!(
            decide_on(denial),
            denied(
                EndReason::DeniedByApprover,
                "The approver denied this call, and it did not run. Not on a Friday."
            )
        );
    }

    #[test]
    fn only_the_input_that_was_approved_is_run() {
        let row = row(Some(wait(Awaits::Approval, Some(Decision::Allow))));
        let other = decide(&call(r#"{"a":1}"#), Some(&row), Decision::Deny);
        assert_eq!(other, denied(EndReason::InputNotApproved, NOT_APPROVED));
    }

    #[test]
    fn an_edited_input_replaces_the_input_of_the_model() {
        let edited = Wait {
            input: Some(r#"{"b":2}"#.to_owned()),
            ..wait(Awaits::Approval, Some(Decision::Allow))
        };
        let calls = with_edited_inputs(&[call("{}")], &[row(Some(edited))]).unwrap();
        assert_eq!(calls, [call(r#"{"b":2}"#)]);
        assert_eq!(with_edited_inputs(&[call("{}")], &[row(None)]).unwrap(), [call("{}")]);
    }
}
