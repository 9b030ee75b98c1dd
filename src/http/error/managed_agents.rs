//! The errors of the protocol of Claude Managed Agents.

use serde::Serialize;

use crate::domain::ids::RunId;
use crate::service::FieldError;

/// The body of every error response under `/anthropic`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ManagedAgentsError {
    /// `error`.
    r#type: &'static str,
    error: ManagedAgentsErrorObject,
    /// The `request-id` of the response, which the log of the service contains.
    request_id: String,
}

/// An error.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct ManagedAgentsErrorObject {
    /// The class of the error, which follows from the status.
    r#type: &'static str,
    /// A description of this occurrence for people.
    message: String,
    details: ManagedAgentsErrorDetails,
}

/// The details of an error, for programs.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ManagedAgentsErrorDetails {
    /// The `code` of the problem documents of the service.
    pub(super) error_code: &'static str,
    /// The invalid members of the request body, or parameters of the query.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) errors: Vec<FieldError>,
    /// The run that makes the session busy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(super) active_run_id: Option<RunId>,
    /// The number of events of the request that were applied before the refused one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) applied: Option<usize>,
}

impl ManagedAgentsError {
    /// The error of a response with this status.
    pub(super) fn new(
        status: u16,
        mut message: String,
        details: ManagedAgentsErrorDetails,
        request_id: String,
    ) -> Self {
        if details.error_code == "route_not_found" {
            message.push_str("; this service has only agents, environments and sessions");
        }
        let error = ManagedAgentsErrorObject { r#type: error_type(status), message, details };
        Self { r#type: "error", error, request_id }
    }
}

const fn error_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        409 => "conflict_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}
