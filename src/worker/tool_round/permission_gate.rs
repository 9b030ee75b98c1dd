//! What becomes of each call before any of them runs: the policy's word, somebody's, or a wait.

use futures::future::join_all;

use crate::domain::permission::{Awaits, Decision, Permission, PermissionMode};
use crate::domain::tool::{CallResult, CallState, ToolCall};
use crate::domain::tool_error::ToolErrorType;
use crate::store::tool_calls::{LedgerRow, Wait};
use crate::tools::policy::{Policy, PolicySource, Verdict, is_told, refusal};
use crate::tools::unknown_tool;
use crate::tools::workspace::hash;
use crate::worker::run::driver::Driver;
use crate::worker::run::stop_cause::Halt;
use crate::worker::tool_round::plan::Round;

/// What is to be done with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::worker) enum Gate {
    /// Run it.
    Run,
    /// Answer it so, without running it.
    End(CallState, String, Option<ToolErrorType>),
    /// Let it wait, for this reason.
    Wait(Awaits, Option<String>),
    /// Ask the policy.
    Evaluate,
}

/// What a call is told that somebody denied.
const DENIED: &str = "This call was denied, and did not run.";
/// What a call is told on which nobody decided.
const UNDECIDED: &str = "Nobody decided in time whether this call may run, so it did not run.";
/// What a call is told that the client did not answer.
const UNANSWERED: &str =
    "The client gave no result in time. It may have run the call all the same.";
/// What a call is told whose input is not the one that was shown.
const NOT_APPROVED: &str = "This call did not run: its input is not the one that was approved.";

/// What the ledger says of a call that has no result yet.
pub(in crate::worker) fn gate(call: &ToolCall, row: Option<&LedgerRow>, default: Decision) -> Gate {
    let Some(row) = row else { return Gate::Evaluate };
    if row.state == CallState::Started {
        return Gate::Run;
    }
    let Some(wait) = &row.wait else { return Gate::Evaluate };
    match (wait.awaits, wait.decision) {
        (awaits, None) if !wait.is_overdue => Gate::Wait(awaits, None),
        (Awaits::Client, _) => {
            Gate::End(CallState::Failed, UNANSWERED.to_owned(), Some(ToolErrorType::Timeout))
        }
        (Awaits::Approval, Some(Decision::Allow)) if !is_approved(call, wait) => {
            Gate::End(CallState::Denied, NOT_APPROVED.to_owned(), None)
        }
        (Awaits::Approval, Some(Decision::Allow)) => Gate::Run,
        (Awaits::Approval, Some(Decision::Deny)) => {
            let why = wait.message.as_deref().unwrap_or_default();
            let text = format!("{DENIED} {why}").trim_end().to_owned();
            Gate::End(CallState::Denied, text, None)
        }
        (Awaits::Approval, None) => match default {
            Decision::Allow => Gate::Run,
            Decision::Deny => Gate::End(CallState::Denied, UNDECIDED.to_owned(), None),
        },
    }
}

/// Whether a call has not begun, and runs because somebody said so.
fn is_allowed_by_somebody(row: Option<&LedgerRow>) -> bool {
    row.is_some_and(|row| row.state == CallState::Planned && row.wait.is_some())
}

fn is_approved(call: &ToolCall, wait: &Wait) -> bool {
    wait.input_hash.as_deref() == Some(hash(call.input.get().as_bytes()).as_slice())
}

/// The calls with the inputs that somebody put in place of the model's.
pub(in crate::worker) fn with_inputs(
    calls: &[ToolCall],
    ledger: &[LedgerRow],
) -> Result<Vec<ToolCall>, Halt> {
    let edited = |call: &ToolCall| {
        let row = ledger.iter().find(|row| row.tool_use_id == call.tool_use_id)?;
        row.wait.as_ref()?.input.clone()
    };
    let with_input = |call: &ToolCall| {
        let input = match edited(call) {
            Some(input) => serde_json::value::RawValue::from_string(input)?,
            None => call.input.clone(),
        };
        Ok(ToolCall { input, ..call.clone() })
    };
    calls.iter().map(with_input).collect()
}

/// What the model is told besides the result of a call whose input was edited.
pub(in crate::worker) fn edited_note(input: &str) -> String {
    format!("[The input was changed before the call ran. It ran with {input}]\n")
}

impl Driver<'_> {
    /// What the policy says of a call that has just been asked for; none if the client runs it.
    pub(in crate::worker) fn permission(
        &mut self,
        call: &ToolCall,
    ) -> Result<Option<Permission>, Halt> {
        if self.is_clients(call) {
            return Ok(None);
        }
        Ok(Some(self.verdict(call)?.permission))
    }

    /// Settles what need not run, and holds what must wait.
    pub(in crate::worker) async fn open_gates(
        &mut self,
        round: &mut Round<'_>,
    ) -> Result<(), Halt> {
        if self.policy.is_none() {
            // A call that was approved is not judged again, and still runs in a mode.
            self.policy = Some(self.read_policy()?);
        }
        let default = self.worker.parts.policy.default_answer;
        let mut asked = Vec::new();
        for position in 0..round.calls.len() {
            let Some(row) = round.open(position) else { continue };
            let Some(call) = round.calls.get(position) else { continue };
            if !self.is_offered(call) {
                // Answered as what the model would be told of a tool that is nowhere.
                let text = unknown_tool(&call.name);
                round.end_with(
                    position,
                    CallResult::of_text(&call.tool_use_id, CallState::Failed, text),
                );
                continue;
            }
            if let Some(text) = self.absence(call, row) {
                round.end_with(
                    position,
                    CallResult::of_text(&call.tool_use_id, CallState::Failed, text),
                );
                continue;
            }
            let decided = gate(call, row, default);
            let decided = if decided == Gate::Evaluate { self.evaluate(call)? } else { decided };
            match decided {
                Gate::Run if is_allowed_by_somebody(row) => self.look_once_more(round, position)?,
                Gate::Run => {}
                Gate::Evaluate => asked.push(position),
                Gate::Wait(awaits, reason) => round.hold(position, awaits, reason),
                Gate::End(state, text, error_type) => {
                    self.refuse(round, position, (state, &text, error_type));
                }
            }
        }
        self.ask_evaluator(round, &asked).await
    }

    /// What the model reads of a tool whose server does not offer it now: nobody is asked about a
    /// call that cannot run. One that had begun is past that.
    fn absence(&self, call: &ToolCall, row: Option<&LedgerRow>) -> Option<String> {
        let has_begun = row.is_some_and(|row| row.state == CallState::Started);
        if has_begun || self.is_clients(call) {
            return None;
        }
        self.worker.parts.tools.absent(&call.name)
    }

    /// Nobody can allow what a rule denies, by an edited input or before the rule was there.
    fn look_once_more(&mut self, round: &mut Round<'_>, position: usize) -> Result<(), Halt> {
        let Some(call) = round.calls.get(position) else { return Ok(()) };
        let Verdict { permission, reason, .. } = self.verdict(call)?;
        if permission == Permission::Deny {
            self.refuse(round, position, (CallState::Denied, &denial(reason), None));
        }
        Ok(())
    }

    /// The policy's word on a call; [`Gate::Evaluate`] if there is somebody else to ask.
    fn evaluate(&mut self, call: &ToolCall) -> Result<Gate, Halt> {
        if self.is_clients(call) {
            // The client is asked by being given the call; only what is forbidden it never sees.
            let Verdict { permission, reason, is_by_mode } = self.verdict(call)?;
            return Ok(if permission == Permission::Deny && !is_by_mode {
                Gate::End(CallState::Denied, denial(reason), None)
            } else {
                Gate::Wait(Awaits::Client, None)
            });
        }
        let Verdict { permission, reason, is_by_mode } = self.verdict(call)?;
        Ok(match permission {
            Permission::Allow => Gate::Run,
            Permission::Ask if is_by_mode && self.worker.parts.evaluator.is_some() => {
                Gate::Evaluate
            }
            Permission::Ask => Gate::Wait(Awaits::Approval, reason),
            Permission::Deny => Gate::End(CallState::Denied, denial(reason), None),
        })
    }

    /// Asks for the second opinion, of all calls at once: it may take minutes.
    async fn ask_evaluator(
        &mut self,
        round: &mut Round<'_>,
        positions: &[usize],
    ) -> Result<(), Halt> {
        let Some(evaluator) = &self.worker.parts.evaluator else { return Ok(()) };
        let calls = round.calls;
        let session_id = self.session_id();
        let asked = positions.iter().filter_map(|position| {
            let call = calls.get(*position)?;
            let class = self.class(call);
            let asking = evaluator.ask(session_id, call, class);
            Some(async move { (*position, call.tool_use_id.clone(), asking.await) })
        });
        let answers = self.signals.unless_stopped(join_all(asked)).await?;
        for (position, call_id, answer) in answers {
            match answer {
                Ok(Verdict { permission: Permission::Allow, .. }) => {}
                Ok(Verdict { permission: Permission::Ask, reason, .. }) => {
                    round.hold(position, Awaits::Approval, reason);
                }
                Ok(Verdict { permission: Permission::Deny, reason, .. }) => {
                    self.refuse(round, position, (CallState::Denied, &denial(reason), None));
                }
                Err(error) => {
                    let answer = refusal(&error);
                    let result = CallResult::of_text(&call_id, CallState::Failed, answer.text);
                    let error_type = answer.error_type;
                    round.end_with(position, CallResult { error_type, ..result });
                }
            }
        }
        Ok(())
    }

    /// Answers a call that does not run, in the style of its tool.
    fn refuse(
        &self,
        round: &mut Round<'_>,
        position: usize,
        (state, text, error_type): (CallState, &str, Option<ToolErrorType>),
    ) {
        let Some(call) = round.calls.get(position) else { return };
        let text = self.worker.parts.tools.error_text(&call.name, text);
        let result =
            CallResult { error_type, ..CallResult::of_text(&call.tool_use_id, state, text) };
        round.end_with(position, result);
    }

    fn verdict(&mut self, call: &ToolCall) -> Result<Verdict, Halt> {
        let class = self.class(call);
        let policy = match self.policy.take() {
            Some(policy) => policy,
            None => self.read_policy()?,
        };
        let policy = self.policy.insert(policy);
        Ok(match self.worker.parts.tools.visits(&call.name, &call.input) {
            Some(address) => policy
                .evaluate_visit(call, class, || is_told(&address, self.transcript.messages().text)),
            None => policy.evaluate(call, class),
        })
    }

    /// Reads the rules as they are now, and what follows on a plan.
    fn read_policy(&mut self) -> Result<Policy, Halt> {
        let operator = &self.worker.parts.policy;
        let settings = &self.run.settings;
        let mode = operator.mode(self.run.permissions.mode, settings.permission_mode);
        let is_planning = mode == PermissionMode::Plan;
        self.context.after_plan =
            is_planning.then(|| operator.mode_after_plan(settings.permission_mode));
        let source = PolicySource {
            operator,
            session_rules: &settings.permissions,
            remembered: &self.run.permissions.remembered,
            mode,
            workspace: &self.context.workspace.names(),
        };
        Policy::new(source).map_err(|error| Halt::Defect(error.to_string()))
    }

    /// Whether the model was given the tool. A service may have more than a session.
    fn is_offered(&mut self, call: &ToolCall) -> bool {
        let offered = self.offered.get_or_insert_with(|| {
            let mut names = self.run.settings.tool_names();
            names.extend(self.run.options.tool_names());
            names.into_iter().collect()
        });
        offered.contains(&call.name)
    }

    fn is_clients(&self, call: &ToolCall) -> bool {
        self.run.settings.is_clients(&self.run.options, &call.name)
    }
}

fn denial(reason: Option<String>) -> String {
    reason.unwrap_or_else(|| "The permission policy does not allow this call.".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

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
            child_run: None,
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

    fn decide(wait: Wait) -> Gate {
        gate(&call("{}"), Some(&row(Some(wait))), Decision::Deny)
    }

    fn denied(text: &str) -> Gate {
        Gate::End(CallState::Denied, text.to_owned(), None)
    }

    #[test]
    fn a_call_that_nobody_was_asked_about_is_for_the_policy() {
        assert_eq!(gate(&call("{}"), None, Decision::Deny), Gate::Evaluate);
        assert_eq!(gate(&call("{}"), Some(&row(None)), Decision::Deny), Gate::Evaluate);
    }

    #[test]
    fn a_call_that_had_begun_is_past_the_gate() {
        let started = LedgerRow { state: CallState::Started, ..row(None) };
        assert_eq!(gate(&call("{}"), Some(&started), Decision::Deny), Gate::Run);
    }

    #[test]
    fn an_open_call_waits_until_its_time_is_over() {
        for awaits in [Awaits::Approval, Awaits::Client] {
            assert_eq!(decide(wait(awaits, None)), Gate::Wait(awaits, None));
        }
        let overdue = Wait { is_overdue: true, ..wait(Awaits::Approval, None) };
        assert_eq!(decide(overdue.clone()), denied(UNDECIDED));
        let row = row(Some(overdue));
        assert_eq!(gate(&call("{}"), Some(&row), Decision::Allow), Gate::Run);
        let unanswered = Wait { is_overdue: true, ..wait(Awaits::Client, None) };
        let timeout = Some(ToolErrorType::Timeout);
        let expected = Gate::End(CallState::Failed, UNANSWERED.to_owned(), timeout);
        assert_eq!(decide(unanswered), expected);
    }

    #[test]
    fn a_decision_in_time_holds_after_the_deadline() {
        let late = |decision| Wait { is_overdue: true, ..wait(Awaits::Approval, Some(decision)) };
        assert_eq!(decide(late(Decision::Allow)), Gate::Run);
        assert_eq!(decide(late(Decision::Deny)), denied(DENIED));
    }

    #[test]
    fn a_denial_is_told_with_its_reason() {
        let denial = Wait {
            message: Some("Not on a Friday.".to_owned()),
            ..wait(Awaits::Approval, Some(Decision::Deny))
        };
        assert_eq!(
            decide(denial),
            denied("This call was denied, and did not run. Not on a Friday.")
        );
    }

    #[test]
    fn only_the_input_that_was_approved_is_run() {
        let row = row(Some(wait(Awaits::Approval, Some(Decision::Allow))));
        let other = gate(&call(r#"{"a":1}"#), Some(&row), Decision::Deny);
        assert_eq!(other, denied(NOT_APPROVED));
    }

    #[test]
    fn an_input_that_somebody_edited_takes_the_place_of_the_models() {
        let edited = Wait {
            input: Some(r#"{"b":2}"#.to_owned()),
            ..wait(Awaits::Approval, Some(Decision::Allow))
        };
        let calls = with_inputs(&[call("{}")], &[row(Some(edited))]).unwrap();
        assert_eq!(calls, [call(r#"{"b":2}"#)]);
        assert_eq!(with_inputs(&[call("{}")], &[row(None)]).unwrap(), [call("{}")]);
    }
}
