//! The operator's settings for permissions.

use std::time::Duration;

use reqwest::Url;
use secrecy::SecretString;

use crate::domain::permission::{Decision, PermissionMode, Rule};
use crate::domain::reloadable::Reloadable;

/// The default of [`OperatorPolicy::max_links`].
pub const DEFAULT_MAX_LINKS: usize = 10;

/// The service or tool that evaluates calls.
#[derive(Debug, Clone)]
pub enum EvaluatorSource {
    /// An HTTP service.
    Http {
        /// The URL of the service.
        url: Url,
        /// The key for the `Authorization` header.
        key: Option<SecretString>,
    },
    /// A tool of an MCP server, by the name that the server gives it.
    Tool {
        /// The name of the server.
        server: String,
        /// The name of the tool.
        tool: String,
    },
}

/// The operator's part of every session's policy.
#[derive(Debug, Clone)]
pub struct OperatorPolicy {
    /// Rules that are evaluated before all other rules.
    pub rules: Reloadable<Vec<Rule>>,
    /// The mode of sessions that specify none.
    pub default_mode: PermissionMode,
    /// `true` if sessions may use bypass mode, in which every call runs.
    pub allows_bypass: bool,
    /// The evaluator that decides before people are asked.
    pub evaluator: Option<EvaluatorSource>,
    /// The timeout of one evaluation.
    pub evaluation_timeout: Duration,
    /// The maximum time that a call waits for a person's decision.
    pub answer_within: Duration,
    /// The decision that applies after that time.
    pub default_answer: Decision,
    /// The number of pages that the user did not name and that the model may fetch without an
    /// approval for one message, after it has read private data.
    pub max_links: usize,
}

impl Default for OperatorPolicy {
    fn default() -> Self {
        Self {
            rules: Reloadable::default(),
            default_mode: PermissionMode::AcceptEdits,
            allows_bypass: false,
            evaluator: None,
            evaluation_timeout: Duration::from_mins(2),
            answer_within: Duration::from_hours(1),
            default_answer: Decision::Deny,
            max_links: DEFAULT_MAX_LINKS,
        }
    }
}

impl OperatorPolicy {
    /// Returns `true` if sessions and messages may use this mode.
    pub fn permits(&self, mode: PermissionMode) -> bool {
        mode != PermissionMode::Bypass || self.allows_bypass
    }

    /// Returns the mode, or the default mode if the operator no longer permits it.
    pub fn permitted(&self, mode: PermissionMode) -> PermissionMode {
        if self.permits(mode) { mode } else { PermissionMode::Default }
    }

    /// Returns the mode of a session: the mode it was changed to, else the mode it was created
    /// with, else the operator's default.
    pub fn mode(
        &self,
        changed: Option<PermissionMode>,
        pinned: Option<PermissionMode>,
    ) -> PermissionMode {
        self.permitted(changed.or(pinned).unwrap_or(self.default_mode))
    }

    /// Returns the mode of a session after its plan is approved: the mode it was created with,
    /// else the operator's default, else [`PermissionMode::AcceptEdits`]. It is never plan
    /// mode.
    pub fn mode_after_plan(&self, pinned: Option<PermissionMode>) -> PermissionMode {
        let is_other = |mode: &PermissionMode| *mode != PermissionMode::Plan;
        pinned
            .filter(is_other)
            .or(Some(self.default_mode).filter(is_other))
            .unwrap_or(PermissionMode::AcceptEdits)
    }
}
