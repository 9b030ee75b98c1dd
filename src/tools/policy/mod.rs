//! What is to become of a call: the rules in their order, then the mode. Decided without IO, but
//! for the [`Evaluator`].
//!
//! Rules spare people questions; they are not what holds a call. A rule that allows is read
//! narrowly and one that asks or denies widely, and still a program can hide what it does from
//! every pattern. What bounds it are the workspace's handle and the sandbox.

mod command;
mod domain;
mod evaluator;
mod input;
mod operator;
mod path;
mod rule;
mod told;
mod visible;
mod wildcard;

use std::path::PathBuf;

use crate::domain::permission::{Permission, PermissionMode, Rule};
use crate::domain::tool::{ToolCall, ToolClass};

pub use evaluator::{BadEvaluator, Evaluator, refusal};
pub use operator::{EvaluatorSource, OperatorPolicy};
pub use rule::{BadRule, MAX_REASON, check, remember};
pub use told::is_told;
pub use visible::visible;

use input::Input;
use rule::Compiled;

/// The tool by which the model asks to leave plan mode. Only people answer it.
pub const EXIT_PLAN_MODE: &str = "ExitPlanMode";

/// Where the rules of a session come from, in the order in which they are asked.
#[derive(Debug, Clone, Copy)]
pub struct PolicySource<'a> {
    /// What the operator says. No later rule loosens it.
    pub operator: &'a OperatorPolicy,
    /// What the session's creator said.
    pub session_rules: &'a [Rule],
    /// What people said while they decided on calls.
    pub remembered: &'a [Rule],
    /// The mode of the moment.
    pub mode: PermissionMode,
    /// The names of the folder of the session's files.
    pub workspace: &'a [PathBuf],
}

/// The rules of one session, ready to be asked.
#[derive(Debug, Clone)]
pub struct Policy {
    rules: Vec<Compiled>,
    mode: PermissionMode,
}

/// What is to become of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it may run.
    pub permission: Permission,
    /// Why: for the model if the call is denied, for people if they are asked.
    pub reason: Option<String>,
    /// Whether no rule spoke of the call. Only then an [`Evaluator`] has a say.
    pub is_by_mode: bool,
}

impl Policy {
    /// Reads the rules.
    pub fn new(source: PolicySource<'_>) -> Result<Self, BadRule> {
        let PolicySource { operator, session_rules, remembered, mode, workspace } = source;
        let mut rules = Vec::new();
        for list in [operator.rules.as_slice(), session_rules, remembered] {
            for (index, rule) in list.iter().enumerate() {
                rules.push(Compiled::new(index, rule, workspace)?);
            }
        }
        Ok(Self { rules, mode: operator.permitted(mode) })
    }

    /// What is to become of a call of a tool of this class.
    pub fn evaluate(&self, call: &ToolCall, class: ToolClass) -> Verdict {
        let input = Input::read(&call.input);
        let rule = self.rules.iter().find(|rule| rule.speaks_of(&call.name, &input));
        let ruled = rule.map(|rule| rule.verdict(&call.name));
        if ruled.as_ref().is_some_and(|verdict| verdict.permission == Permission::Deny) {
            return ruled.unwrap_or_else(|| self.by_mode(call, class));
        }
        // A plan is for people to approve, and no rule is older than the plan it would break.
        match self.mode {
            PermissionMode::Plan if call.name == EXIT_PLAN_MODE => Verdict {
                permission: Permission::Ask,
                reason: Some("the model has made a plan and asks to begin".to_owned()),
                is_by_mode: false,
            },
            PermissionMode::Plan if class != ToolClass::Pure => self.by_mode(call, class),
            PermissionMode::Default
            | PermissionMode::AcceptEdits
            | PermissionMode::Plan
            | PermissionMode::Bypass => ruled.unwrap_or_else(|| self.by_mode(call, class)),
        }
    }

    /// The same of a call that visits an address. Whoever is there learns what is in the address,
    /// so where no rule speaks of it, it has to be one that the model did not make up.
    pub fn evaluate_visit(
        &self,
        call: &ToolCall,
        class: ToolClass,
        is_told: impl FnOnce() -> bool,
    ) -> Verdict {
        let verdict = self.evaluate(call, class);
        let is_open = verdict.is_by_mode && verdict.permission == Permission::Allow;
        if !is_open || self.mode == PermissionMode::Bypass || is_told() {
            return verdict;
        }
        let reason = "nobody but the model has named this address".to_owned();
        Verdict { permission: Permission::Ask, reason: Some(reason), is_by_mode: true }
    }

    fn by_mode(&self, call: &ToolCall, class: ToolClass) -> Verdict {
        let (permission, reason) = match (self.mode, class) {
            // What a sub-agent does is judged call by call, by the mode and the rules of its parent.
            (PermissionMode::Bypass, _)
            | (_, ToolClass::Pure)
            | (PermissionMode::AcceptEdits, ToolClass::Checkable)
            | (PermissionMode::Default | PermissionMode::AcceptEdits, ToolClass::Child) => {
                (Permission::Allow, None)
            }
            (PermissionMode::Plan, _) => (Permission::Deny, Some(plan_first(&call.name))),
            (PermissionMode::Default | PermissionMode::AcceptEdits, _) => (Permission::Ask, None),
        };
        Verdict { permission, reason, is_by_mode: true }
    }
}

fn plan_first(tool: &str) -> String {
    format!(
        "Plan mode is on: {tool} changes things, and nothing may change before a plan is \
         approved. Look around with tools that only read, then call {EXIT_PLAN_MODE} with your plan."
    )
}

#[cfg(test)]
mod tests;
