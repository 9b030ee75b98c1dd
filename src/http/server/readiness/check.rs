//! The result of one readiness check.

use std::borrow::Cow;

use serde::Serialize;

/// The result of one readiness check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Check {
    /// The outcome of the check.
    pub(in crate::http) status: CheckStatus,
    /// A description of the result for people.
    #[schema(value_type = String)]
    pub(in crate::http) detail: Cow<'static, str>,
}

/// The outcome of a readiness check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum CheckStatus {
    /// The check passed.
    Ok,
    /// The process can serve requests, but needs attention.
    Warning,
    /// The check failed, and the process is not ready.
    Failed,
}

impl Check {
    pub(super) fn new(status: CheckStatus, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { status, detail: detail.into() }
    }

    pub(super) fn passed(is_passed: bool, passed: &'static str, failed: &'static str) -> Self {
        if is_passed {
            Self::new(CheckStatus::Ok, passed)
        } else {
            Self::new(CheckStatus::Failed, failed)
        }
    }
}
