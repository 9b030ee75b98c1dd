//! Error responses in the form of the API.

use axum::http::StatusCode;
use serde_json::{Value, json};

/// The kind of a refusal by a gateway before the API, whose error has a form of its own.
pub(crate) const GATEWAY: &str = "gateway";

/// The reason that a request gets no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    /// Additional members of the error object; of a refusal of the kind [`GATEWAY`] the whole body.
    pub(crate) details: Option<Value>,
}

impl Refusal {
    /// A refusal by a gateway before the API, with this body.
    pub(crate) fn of_gateway(status: StatusCode, message: &str, body: Value) -> Self {
        Self { details: Some(body), ..Self::new(status, GATEWAY, message) }
    }

    /// 400: the request breaks a rule of the API.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    /// 400 with an `error_code` for programs.
    pub(crate) fn coded(code: &str, message: impl Into<String>) -> Self {
        Self { details: Some(json!({ "error_code": code })), ..Self::invalid(message) }
    }

    /// 401: no API key.
    pub(crate) fn unauthenticated(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "authentication_error", message)
    }

    /// 404: unknown route or model.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found_error", message)
    }

    /// 405: the route has other methods.
    pub(crate) fn wrong_method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request_error", "Method Not Allowed")
    }

    /// 413: the body exceeds the limit.
    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message)
    }

    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into(), details: None }
    }
}

/// The body of an error response and the data of an `error` event.
pub(crate) fn error_body(
    kind: &str,
    message: &str,
    details: Option<&Value>,
    request_id: &str,
) -> Value {
    json!({
        "type": "error",
        "error": { "type": kind, "message": message, "details": details },
        "request_id": request_id,
    })
}

/// The error type for an HTTP status.
pub(crate) fn kind_of(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        409 => "conflict_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        500..=599 => "api_error",
        _ => "invalid_request_error",
    }
}

/// The HTTP status for an error type.
pub(crate) fn status_of(kind: &str) -> StatusCode {
    let status = match kind {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "conflict_error" => 409,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => 500,
    };
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
