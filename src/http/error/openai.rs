//! Errors in the form of OpenAI's protocol, which its clients parse.

use http::StatusCode;
use serde::Serialize;

use crate::service::FieldError;

/// The body of an error.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct OpenAiError {
    error: ErrorBody,
}

/// An error.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
struct ErrorBody {
    /// A description for people.
    message: String,
    /// The class of the error by its status, for example `rate_limit_error`.
    r#type: &'static str,
    /// The JSON pointer of the first member that is wrong, or the name of a parameter.
    #[schema(required)]
    param: Option<String>,
    /// The code of the problem.
    #[schema(required)]
    code: Option<&'static str>,
}

impl OpenAiError {
    /// The error for a refused request.
    pub(in crate::http) fn new(
        status: u16,
        code: &'static str,
        detail: &str,
        errors: &[FieldError],
    ) -> Self {
        let message = detail.to_owned();
        let name = |error: &FieldError| {
            let FieldError { pointer, parameter, header, .. } = error;
            parameter.as_ref().or(header.as_ref()).unwrap_or(pointer).clone()
        };
        let r#type = match StatusCode::from_u16(status) {
            Ok(StatusCode::UNAUTHORIZED) => "authentication_error",
            Ok(StatusCode::FORBIDDEN) => "permission_error",
            Ok(StatusCode::NOT_FOUND) => "not_found_error",
            Ok(StatusCode::TOO_MANY_REQUESTS) => "rate_limit_error",
            Ok(status) if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        let param = errors.first().map(name);
        // The code that clients of this protocol know.
        let code = Some(if code == "agent_not_found" { "model_not_found" } else { code });
        Self { error: ErrorBody { message, r#type, param, code } }
    }

    /// The error of a failed run.
    pub(in crate::http) fn of_run(message: String) -> Self {
        let (r#type, code) = ("server_error", Some("run_failed"));
        Self { error: ErrorBody { message, r#type, param: None, code } }
    }
}
