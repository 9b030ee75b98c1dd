//! The permission policy: decides whether a call runs, is denied or needs a person's decision. The
//! rules apply in their order, then the permission mode. Only the [`Evaluator`] performs IO.
//!
//! Rules reduce the number of questions to people; they are not a security boundary. An `allow`
//! rule matches narrowly, an `ask` or `deny` rule widely, but a program can hide its actions from
//! every pattern. The security boundaries are the workspace handle and the sandbox.

mod command;
mod domain;
mod evaluator;
mod input;
mod operator;
mod path;
mod rule;
mod tool_pattern;
mod url_provenance;
mod visible;
mod wildcard;

use std::path::PathBuf;

use crate::domain::permission::{Permission, PermissionMode, Rule};
use crate::domain::tool::{ToolCall, ToolClass};

pub use evaluator::{BadEvaluator, Evaluator, refusal};
pub use operator::{DEFAULT_MAX_LINKS, EvaluatorSource, OperatorPolicy};
pub use rule::{BadRule, MAX_REASON, check, remember};
pub use tool_pattern::ToolPattern;
pub use url_provenance::{CallFacts, HistorySource, UrlHistory, UrlVerdict};
pub(in crate::tools) use url_provenance::{addresses, replace_unknown_addresses};
pub use visible::visible;

use input::CallInput;
use rule::CompiledRule;

/// The name of the tool with which the model requests to leave plan mode. Only a person can
/// approve the call.
pub const EXIT_PLAN_MODE: &str = "ExitPlanMode";

/// The sources of a session's rules, in the order of evaluation.
#[derive(Debug, Clone, Copy)]
pub struct PolicySource<'a> {
    /// The operator's policy. No later rule can relax it.
    pub operator: &'a OperatorPolicy,
    /// The rules that the creator of the session set.
    pub session_rules: &'a [Rule],
    /// The rules that people added when they decided on calls.
    pub remembered: &'a [Rule],
    /// The current permission mode.
    pub mode: PermissionMode,
    /// The paths by which the workspace directory is known.
    pub workspace: &'a [PathBuf],
}

/// The compiled rules and the mode of one session.
#[derive(Debug, Clone)]
pub struct Policy {
    rules: Vec<CompiledRule>,
    mode: PermissionMode,
}

/// The decision on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyDecision {
    /// The permission: allow, ask or deny.
    pub permission: Permission,
    /// The reason. The model receives it if the call is denied, people if they are asked.
    pub reason: Option<String>,
    /// `true` if no rule matched the call. Only then the [`Evaluator`] may decide.
    pub is_by_mode: bool,
}

impl Policy {
    /// Compiles the rules.
    pub fn new(source: PolicySource<'_>) -> Result<Self, BadRule> {
        let PolicySource { operator, session_rules, remembered, mode, workspace } = source;
        let mut rules = Vec::new();
        let operator_rules = operator.rules.current();
        for list in [operator_rules.as_slice(), session_rules, remembered] {
            for (index, rule) in list.iter().enumerate() {
                rules.push(CompiledRule::new(index, rule, workspace)?);
            }
        }
        Ok(Self { rules, mode: operator.permitted(mode) })
    }

    /// Decides on a call of a tool of this class.
    pub fn evaluate(&self, call: &ToolCall, class: ToolClass) -> PolicyDecision {
        let input = CallInput::read(&call.input);
        let rule = self.rules.iter().find(|rule| rule.applies_to(&call.name, &input));
        let ruled = rule.map(|rule| rule.policy_decision(&call.name));
        if ruled.as_ref().is_some_and(|decision| decision.permission == Permission::Deny) {
            return ruled.unwrap_or_else(|| self.by_mode(call, class));
        }
        // Only a person approves a plan. An `allow` rule does not permit changes in plan
        // mode.
        match self.mode {
            PermissionMode::Plan if call.name == EXIT_PLAN_MODE => PolicyDecision {
                permission: Permission::Ask,
                reason: Some("the model has made a plan and requests its approval".to_owned()),
                is_by_mode: false,
            },
            PermissionMode::Plan if class != ToolClass::Pure => self.by_mode(call, class),
            PermissionMode::Default
            | PermissionMode::AcceptEdits
            | PermissionMode::Plan
            | PermissionMode::Bypass => ruled.unwrap_or_else(|| self.by_mode(call, class)),
        }
    }

    /// Decides on a call that requests a URL. The URL, and the choice of the URL, can carry data to
    /// its server. Therefore, if no rule matches, the call is allowed only if the URL does not
    /// originate from the model, and only for a limited number of links.
    pub fn evaluate_visit(
        &self,
        call: &ToolCall,
        class: ToolClass,
        verdict: impl FnOnce() -> UrlVerdict,
    ) -> PolicyDecision {
        let decision = self.evaluate(call, class);
        let is_open = decision.is_by_mode && decision.permission == Permission::Allow;
        if !is_open || self.mode == PermissionMode::Bypass {
            return decision;
        }
        let reason = match verdict() {
            UrlVerdict::Known => return decision,
            UrlVerdict::ModelOnly => "only the model has named this URL".to_owned(),
            UrlVerdict::TooManyLinks { max } => format!(
                "the model has read private data, and for this message it has already fetched as \
                 many pages that the user did not name as it may without an approval ({max})"
            ),
        };
        PolicyDecision { permission: Permission::Ask, reason: Some(reason), is_by_mode: true }
    }

    fn by_mode(&self, call: &ToolCall, class: ToolClass) -> PolicyDecision {
        let (permission, reason) = match (self.mode, class) {
            // Each call of a sub-agent is evaluated with the mode and the rules of its
            // parent.
            (PermissionMode::Bypass, _)
            | (_, ToolClass::Pure)
            | (PermissionMode::AcceptEdits, ToolClass::Checkable)
            | (PermissionMode::Default | PermissionMode::AcceptEdits, ToolClass::SubAgent) => {
                (Permission::Allow, None)
            }
            (PermissionMode::Plan, _) => (Permission::Deny, Some(plan_mode_denial(&call.name))),
            (PermissionMode::Default | PermissionMode::AcceptEdits, _) => (Permission::Ask, None),
        };
        PolicyDecision { permission, reason, is_by_mode: true }
    }
}

fn plan_mode_denial(tool: &str) -> String {
    format!(
        "Plan mode is on: {tool} can have side effects, which are not allowed before a plan is \
         approved. Use only tools that read, then call {EXIT_PLAN_MODE} with your plan."
    )
}

#[cfg(test)]
mod tests;
