//! Problem documents (RFC 9457).

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use serde::Serialize;

use super::format::ErrorFormat;
use super::managed_agents::{ManagedAgentsError, ManagedAgentsErrorDetails};
use super::openai::OpenAiError;
use super::{ApiError, FieldError};
use crate::domain::ids::{RunId, SessionId};
use crate::domain::quota::QuotaExceeded;

/// The header that advises SDKs whether to retry.
const SHOULD_RETRY: &str = "x-should-retry";

/// The media types of changes. Every change is a merge patch (RFC 7396).
const PATCH_TYPES: HeaderValue =
    HeaderValue::from_static("application/merge-patch+json, application/json");

/// A problem document (RFC 9457), the body of every error response.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Problem {
    /// Always `about:blank`; `code` identifies the problem.
    r#type: &'static str,
    /// The reason phrase of the HTTP status.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// A description of this occurrence for people.
    detail: String,
    /// The path of the request.
    instance: String,
    /// A stable identifier of the problem for programs.
    code: &'static str,
    /// The `X-Request-Id` of the response, which the log of the service contains.
    request_id: String,
    /// The invalid members of the request body, or parameters of the query.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    /// The run that makes the session busy, for `session_busy` and `action_required`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    active_run_id: Option<RunId>,
    /// The forks that need the session, at most 100 of them, for `session_has_forks`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    forks: Vec<SessionId>,
    /// The quota that does not allow the request, for `quota_exceeded` and
    /// `storage_quota_exceeded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<QuotaExceeded>,
    /// The number of events of the request that were applied before the refused one.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<usize>,
}

impl Problem {
    /// The same error in the envelope of Claude Managed Agents.
    fn enveloped(self, status: StatusCode) -> ManagedAgentsError {
        let Self { detail, code, request_id, errors, active_run_id, applied, .. } = self;
        let details =
            ManagedAgentsErrorDetails { error_code: code, errors, active_run_id, applied };
        ManagedAgentsError::new(status.as_u16(), detail, details, request_id)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, code) = self.status_and_code();
        let detail = self.detail(code);
        let (retry_after, should_retry) = (self.retry_after(status), self.should_retry(status));
        let active_run_id = self.active_run_id();
        let quota = self.quota();
        let challenge = self.challenge();
        let accepted_types = self.accepted_types();
        let is_compressed = matches!(self, Self::CompressedBody);
        let (errors, forks) = self.lists();
        let problem = Problem {
            r#type: "about:blank",
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            detail,
            instance: String::new(),
            code,
            request_id: String::new(),
            active_run_id,
            errors,
            forks,
            quota,
            applied: None,
        };
        let mut response = status.into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if let Some(types) = accepted_types {
            headers.insert(ACCEPT, HeaderValue::from_static(types));
        }
        if is_compressed {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        if status == StatusCode::REQUEST_TIMEOUT {
            // The connection cannot be reused, because the rest of the body may still arrive.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(should_retry) = should_retry {
            let word = if should_retry { "true" } else { "false" };
            headers.insert(SHOULD_RETRY, HeaderValue::from_static(word));
        }
        // The outermost layer serializes it, because it knows the path and the id of the request.
        response.extensions_mut().insert(problem);
        response
    }
}

/// The response to a request whose first `applied` events took effect before one was refused.
pub(in crate::http) fn refused_after(error: ApiError, applied: usize) -> Response {
    let mut response = error.into_response();
    if applied > 0 {
        // The request had an effect, so it cannot be repeated unchanged.
        response.headers_mut().remove(SHOULD_RETRY);
        if let Some(problem) = response.extensions_mut().get_mut::<Problem>() {
            problem.applied = Some(applied);
        }
    }
    response
}

/// Serializes the problem document that a handler attached to its response.
pub(in crate::http) fn write_problem(
    response: Response,
    format: ErrorFormat,
    method: &Method,
    path: &str,
    request_id: &str,
) -> Response {
    let (mut parts, body) = response.into_parts();
    let Some(mut problem) = parts.extensions.remove::<Problem>() else {
        return Response::from_parts(parts, body);
    };
    path.clone_into(&mut problem.instance);
    request_id.clone_into(&mut problem.request_id);
    parts.status = format.status(parts.status);
    let json = match format {
        ErrorFormat::OpenAi => {
            let Problem { status, code, detail, errors, .. } = &problem;
            serde_json::to_vec(&OpenAiError::new(*status, code, detail, errors))
        }
        ErrorFormat::Problem => serde_json::to_vec(&problem),
        ErrorFormat::ManagedAgents => serde_json::to_vec(&problem.enveloped(parts.status)),
    };
    let json = json.unwrap_or_default();
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
    if method == Method::PATCH && parts.headers.contains_key(ACCEPT) {
        parts.headers.insert(ACCEPT, PATCH_TYPES);
    }
    if let Some(types) = parts.headers.get(ACCEPT).cloned()
        && let Some(name) = accepted_by(method)
    {
        parts.headers.insert(name, types);
    }
    Response::from_parts(parts, Body::from(json))
}

/// The header that lists the media types which a method accepts.
fn accepted_by(method: &Method) -> Option<HeaderName> {
    match *method {
        Method::POST => Some(HeaderName::from_static("accept-post")),
        Method::PATCH => Some(HeaderName::from_static("accept-patch")),
        _ => None,
    }
}
