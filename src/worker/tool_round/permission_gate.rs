//! The permission gate: decides on each call of a round before any of them runs.

use std::collections::HashSet;

use futures::future::join_all;

use super::permission_decision::{GateDecision, Refusal, decide, is_approved_by_person};
use super::plan::ToolRound;
use super::url_history::{max_links, url_history};
use crate::domain::call_end::EndReason;
use crate::domain::permission::{Awaits, Permission, PermissionMode};
use crate::domain::tool::{CallResult, CallState, ToolCall};
use crate::store::tool_calls::LedgerRow;
use crate::tools::policy::{Policy, PolicyDecision, PolicySource, UrlHistory, refusal};
use crate::tools::{ToolContext, unknown_tool};
use crate::worker::run::context::RunContext;
use crate::worker::run::state::RunState;
use crate::worker::run::step_writer::StepWriter;
use crate::worker::run::stop_cause::StopCause;

/// The permission policy of a run and what it is applied to.
#[derive(Debug)]
pub(super) struct PermissionGate<'a> {
    run: &'a RunContext<'a>,
    /// The policy and the mode of the session that it was built for, after the first call.
    policy: Option<(Option<PermissionMode>, Policy)>,
    /// The names of the tools that the model was given, after the first call.
    offered: Option<HashSet<String>>,
    /// The provenance of URLs, with the length of the transcript that it was read from.
    urls: Option<(usize, UrlHistory)>,
}

/// A call among the calls of one reply.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallOfReply<'c> {
    pub(super) calls: &'c [ToolCall],
    pub(super) position: usize,
    pub(super) call: &'c ToolCall,
}

impl<'a> PermissionGate<'a> {
    pub(super) fn new(run: &'a RunContext<'a>) -> Self {
        Self { run, policy: None, offered: None, urls: None }
    }

    /// The permission of a call that the model has just requested; none if the client executes it.
    pub(super) fn permission(
        &mut self,
        writer: &StepWriter<'_>,
        context: &mut ToolContext,
        call: CallOfReply<'_>,
    ) -> Result<Option<Permission>, StopCause> {
        if self.is_client_tool(call.call) {
            return Ok(None);
        }
        Ok(Some(self.decision(writer, context, call)?.permission))
    }

    /// Returns true if all calls that the model has just requested may run without an answer.
    pub(super) fn allows_all(
        &mut self,
        writer: &StepWriter<'_>,
        context: &mut ToolContext,
        calls: &[ToolCall],
    ) -> Result<bool, StopCause> {
        for (position, call) in calls.iter().enumerate() {
            let call_of_reply = CallOfReply { calls, position, call };
            let is_allowed = self.unavailable(call, None).is_none()
                && self.evaluate(writer, context, call_of_reply)? == GateDecision::Run;
            if !is_allowed {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends the calls of a round that must not run, and holds those that must wait.
    pub(super) async fn apply(
        &mut self,
        state: &RunState<'_>,
        context: &mut ToolContext,
        round: &mut ToolRound<'_>,
    ) -> Result<(), StopCause> {
        let writer = &state.writer;
        // A call that was approved is not evaluated again, but runs in the current mode.
        self.refresh_policy(writer, context)?;
        let default = self.run.services.policy.default_answer;
        let mut undecided = Vec::new();
        for position in 0..round.calls.len() {
            let Some(row) = round.open(position) else { continue };
            let Some(call) = round.calls.get(position) else { continue };
            let call_of_reply = CallOfReply { calls: round.calls, position, call };
            if let Some(text) = self.unavailable(call, row) {
                let result = CallResult::of_text(&call.tool_use_id, CallState::Failed, text);
                round.end_with(position, result);
                continue;
            }
            let mut decision = decide(call, row, default);
            if decision == GateDecision::Evaluate {
                decision = self.evaluate(writer, context, call_of_reply)?;
            } else if decision == GateDecision::Run && is_approved_by_person(row) {
                decision = self.recheck(writer, context, call_of_reply)?;
            }
            match decision {
                GateDecision::Run => {}
                GateDecision::Evaluate => undecided.push(position),
                GateDecision::Wait(awaits, reason) => round.hold(position, awaits, reason),
                GateDecision::End(refusal) => self.refuse(round, position, refusal),
            }
        }
        self.ask_evaluator(round, &undecided).await
    }

    /// The answer to a call whose tool the model was not given, or whose server does not offer it
    /// now: no approval is requested for a call that cannot run. A call that has started is not
    /// concerned by its server.
    fn unavailable(&mut self, call: &ToolCall, row: Option<&LedgerRow>) -> Option<String> {
        if !self.is_offered(call) {
            // The same answer as for a tool that does not exist.
            return Some(unknown_tool(&call.name));
        }
        let has_started = row.is_some_and(|row| row.state == CallState::Started);
        if has_started || self.is_client_tool(call) {
            return None;
        }
        self.run.services.tools.unavailable_reason(&call.name)
    }

    /// Denies an approved call that a rule denies: an approval does not override rules, be it with
    /// an edited input or given before the rule existed.
    fn recheck(
        &mut self,
        writer: &StepWriter<'_>,
        context: &mut ToolContext,
        call: CallOfReply<'_>,
    ) -> Result<GateDecision, StopCause> {
        let PolicyDecision { permission, reason, .. } = self.decision(writer, context, call)?;
        Ok(match permission {
            Permission::Deny => GateDecision::End(by_policy(reason)),
            Permission::Allow | Permission::Ask => GateDecision::Run,
        })
    }

    /// The decision of the policy; [`GateDecision::Evaluate`] if the evaluator decides.
    fn evaluate(
        &mut self,
        writer: &StepWriter<'_>,
        context: &mut ToolContext,
        call: CallOfReply<'_>,
    ) -> Result<GateDecision, StopCause> {
        let PolicyDecision { permission, reason, is_by_mode } =
            self.decision(writer, context, call)?;
        if self.is_client_tool(call.call) {
            // The client decides by executing the call; it never receives calls that a rule denies.
            return Ok(if permission == Permission::Deny && !is_by_mode {
                GateDecision::End(by_policy(reason))
            } else {
                GateDecision::Wait(Awaits::Client, None)
            });
        }
        Ok(match permission {
            Permission::Allow => GateDecision::Run,
            Permission::Ask if is_by_mode && self.run.services.evaluator.is_some() => {
                GateDecision::Evaluate
            }
            Permission::Ask => GateDecision::Wait(Awaits::Approval, reason),
            Permission::Deny => GateDecision::End(by_policy(reason)),
        })
    }

    /// Asks the evaluator about all undecided calls at once: an answer may take minutes.
    async fn ask_evaluator(
        &self,
        round: &mut ToolRound<'_>,
        positions: &[usize],
    ) -> Result<(), StopCause> {
        let services = self.run.services;
        let Some(evaluator) = &services.evaluator else { return Ok(()) };
        let calls = round.calls;
        let session_id = self.run.session_id();
        let questions = positions.iter().filter_map(|position| {
            let call = calls.get(*position)?;
            let answer = evaluator.ask(session_id, call, services.tools.class(&call.name));
            Some(async move { (*position, call, answer.await) })
        });
        let answers = self.run.signals.unless_stopped(join_all(questions)).await?;
        for (position, call, answer) in answers {
            match answer {
                Ok(PolicyDecision { permission: Permission::Allow, .. }) => {}
                Ok(PolicyDecision { permission: Permission::Ask, reason, .. }) => {
                    round.hold(position, Awaits::Approval, reason);
                }
                Ok(PolicyDecision { permission: Permission::Deny, reason, .. }) => {
                    self.refuse(round, position, by_policy(reason));
                }
                Err(error) => {
                    let answer = refusal(&error);
                    let result =
                        CallResult::of_text(&call.tool_use_id, CallState::Failed, answer.text);
                    let error_type = answer.error_type;
                    round.end_with(position, CallResult { error_type, ..result });
                }
            }
        }
        Ok(())
    }

    /// Answers a call that does not run, in the error format of its tool.
    fn refuse(&self, round: &mut ToolRound<'_>, position: usize, refusal: Refusal) {
        let Some(call) = round.calls.get(position) else { return };
        let Refusal { state, reason, text, error_type } = refusal;
        let text = self.run.services.tools.error_text(&call.name, &text);
        let result =
            CallResult { error_type, ..CallResult::of_text(&call.tool_use_id, state, text) };
        round.refuse(position, reason, result);
    }

    fn decision(
        &mut self,
        writer: &StepWriter<'_>,
        context: &mut ToolContext,
        CallOfReply { calls, position, call }: CallOfReply<'_>,
    ) -> Result<PolicyDecision, StopCause> {
        let run = self.run;
        let tools = &run.services.tools;
        let class = tools.class(&call.name);
        let mut urls = self.urls.take();
        let policy = self.refresh_policy(writer, context)?;
        let requested_url = |call: &ToolCall| tools.requested_url(&call.name, &call.input);
        let decision = match requested_url(call) {
            Some(address) => policy.evaluate_visit(call, class, || {
                let length = writer.transcript.messages().text.len();
                let known = urls.take().filter(|(read, _)| *read == length);
                let (_, history) = urls.insert(
                    known.unwrap_or_else(|| (length, url_history(run, &writer.transcript, calls))),
                );
                let earlier: Vec<String> =
                    calls.iter().take(position).filter_map(requested_url).collect();
                history.verdict(&address, earlier.iter().map(String::as_str), max_links(run))
            }),
            None => policy.evaluate(call, class),
        };
        self.urls = urls;
        Ok(decision)
    }

    /// The policy for the current mode. Sets the mode that follows an approved plan in `context`.
    fn refresh_policy(
        &mut self,
        writer: &StepWriter<'_>,
        context: &mut ToolContext,
    ) -> Result<&Policy, StopCause> {
        let mode = writer.permission_mode();
        let policy = match self.policy.take() {
            Some((built_for, policy)) if built_for == mode => policy,
            Some(_) | None => self.build_policy(writer, context)?,
        };
        Ok(&self.policy.insert((mode, policy)).1)
    }

    fn build_policy(
        &self,
        writer: &StepWriter<'_>,
        context: &mut ToolContext,
    ) -> Result<Policy, StopCause> {
        let operator = &self.run.services.policy;
        let settings = self.run.settings();
        let mode = operator.mode(writer.permission_mode(), settings.permission_mode);
        let is_planning = mode == PermissionMode::Plan;
        context.after_plan =
            is_planning.then(|| operator.mode_after_plan(settings.permission_mode));
        let source = PolicySource {
            operator,
            session_rules: &settings.permissions,
            remembered: writer.remembered(),
            mode,
            workspace: &context.workspace.names(),
        };
        Policy::new(source).map_err(|error| StopCause::Defect(error.to_string()))
    }

    /// True if the model was given the tool. The service may have more tools than the session.
    fn is_offered(&mut self, call: &ToolCall) -> bool {
        let offered = self.offered.get_or_insert_with(|| {
            let mut names = self.run.settings().tool_names();
            names.extend(self.run.claim.options.tool_names());
            names.into_iter().collect()
        });
        offered.contains(&call.name)
    }

    fn is_client_tool(&self, call: &ToolCall) -> bool {
        self.run.settings().is_client_tool(&self.run.claim.options, &call.name)
    }
}

fn by_policy(reason: Option<String>) -> Refusal {
    let denial = || "The permission policy does not allow this call.".to_owned();
    Refusal::denied(EndReason::DeniedByPolicy, reason.unwrap_or_else(denial))
}
