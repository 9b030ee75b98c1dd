//! What the operator decides about permissions.

use std::time::Duration;

use reqwest::Url;
use secrecy::SecretString;

use crate::domain::permission::{Decision, PermissionMode, Rule};

/// Who is asked for a second opinion.
#[derive(Debug, Clone)]
pub enum EvaluatorSource {
    /// A service.
    Http {
        /// Where it is.
        url: Url,
        /// What it knows us by.
        key: Option<SecretString>,
    },
    /// A tool of a tool server, by the server's own name of it.
    Tool {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
    },
}

/// The operator's part of every policy.
#[derive(Debug, Clone)]
pub struct OperatorPolicy {
    /// Asked before all others.
    pub rules: Vec<Rule>,
    /// The mode of sessions that name none.
    pub default_mode: PermissionMode,
    /// Whether sessions may name the mode in which everything runs.
    pub allows_bypass: bool,
    /// Who is asked before people are.
    pub evaluator: Option<EvaluatorSource>,
    /// How long the evaluator may take.
    pub evaluation_timeout: Duration,
    /// How long a call waits for people.
    pub answer_within: Duration,
    /// What becomes of a call that nobody has decided on by then.
    pub default_answer: Decision,
}

impl Default for OperatorPolicy {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            default_mode: PermissionMode::AcceptEdits,
            allows_bypass: false,
            evaluator: None,
            evaluation_timeout: Duration::from_mins(2),
            answer_within: Duration::from_hours(1),
            default_answer: Decision::Deny,
        }
    }
}

impl OperatorPolicy {
    /// Whether sessions and messages may name a mode.
    pub fn permits(&self, mode: PermissionMode) -> bool {
        mode != PermissionMode::Bypass || self.allows_bypass
    }

    /// A mode, if sessions may still have it: the operator may have taken it back since.
    pub fn permitted(&self, mode: PermissionMode) -> PermissionMode {
        if self.permits(mode) { mode } else { PermissionMode::Default }
    }

    /// The mode of a session: as something has changed it, as it was pinned, or the operator's.
    pub fn mode(
        &self,
        changed: Option<PermissionMode>,
        pinned: Option<PermissionMode>,
    ) -> PermissionMode {
        self.permitted(changed.or(pinned).unwrap_or(self.default_mode))
    }

    /// The mode of a session after its plan was approved: the one it was made with, or the
    /// operator's, or the usual one, but never plan mode again.
    pub fn mode_after_plan(&self, pinned: Option<PermissionMode>) -> PermissionMode {
        let is_other = |mode: &PermissionMode| *mode != PermissionMode::Plan;
        pinned
            .filter(is_other)
            .or(Some(self.default_mode).filter(is_other))
            .unwrap_or(PermissionMode::AcceptEdits)
    }
}
