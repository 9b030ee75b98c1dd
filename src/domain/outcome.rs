//! Outcomes and errors of runs.

use serde::{Deserialize, Serialize};

use super::limits::LimitKind;
use super::output_schema::OutputVerdict;
use super::stop_reason::StopReason;

/// An error of a run, as clients see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunError {
    /// A stable code for programs.
    pub r#type: ErrorType,
    /// A description for people: the cause, the provider's message, and the remedy.
    pub message: String,
    /// The kind of the failure of the request to the model, as in `attempts` of its record; absent
    /// if the error has another cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The message of the model's server, truncated and without keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_message: Option<String>,
}

impl RunError {
    /// An error that is not a failed request to the model.
    pub fn new(r#type: ErrorType, message: impl Into<String>) -> Self {
        Self { r#type, message: message.into(), reason: None, provider_message: None }
    }
}

/// The code of a run's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorType {
    /// The model is overloaded or unavailable, after all retries.
    ModelOverloadedError,
    /// The model limits the service's request rate, after all retries.
    ModelRateLimitedError,
    /// The model refused the request, or its reply could not be read.
    ModelRequestFailedError,
    /// The model account has no credit or its billing failed.
    BillingError,
    /// A budget of the session or of its owner does not allow the next request.
    BudgetExceeded,
    /// Several workers in a row terminated while they executed this run.
    CrashLoop,
    /// A defect of the service.
    InternalError,
}

/// The outcome of a settled run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The reason why the run settled.
    pub stop_reason: StopReason,
    /// The limit at which the service asked the model for a final answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<LimitKind>,
    /// All text of the last assistant message.
    #[serde(default)]
    pub output_text: String,
    /// The error of a failed run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// The check of the answer against the session's output schema, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputVerdict>,
}

impl Outcome {
    /// The outcome of a run that was cancelled before the model answered.
    pub const fn cancelled() -> Self {
        Self {
            stop_reason: StopReason::Cancelled,
            limited: None,
            output_text: String::new(),
            error: None,
            output: None,
        }
    }
}
