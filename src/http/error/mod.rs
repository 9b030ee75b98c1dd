//! Errors as clients see them: problem documents (RFC 9457) with stable codes.

mod service;

use std::any::Any;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use crate::domain::api_key::Scope;
use crate::domain::ids::{RunId, SessionId};
use crate::http::server::forwarded::public;
use crate::service::Error;
pub(in crate::http) use crate::service::FieldError;
use crate::store::StoreError;

const SHOULD_RETRY: &str = "x-should-retry";

/// A request that cannot be served.
#[derive(Debug, thiserror::Error)]
pub(in crate::http) enum ApiError {
    #[error("there is no route {0}")]
    NoRoute(String),
    #[error("this route does not take {0}")]
    NoMethod(String),
    #[error("a key is needed: send it as `Authorization: Bearer KEY` or `x-api-key: KEY`")]
    Unauthenticated,
    #[error("the key may not do this: it lacks the scope `{}`", .0.as_str())]
    Forbidden(Scope),
    #[error("pages of this origin may not use the service; --cors-origins names those that may")]
    ForbiddenOrigin,
    #[error("this service does not answer for {0:?}; --allowed-hosts names hosts")]
    MisdirectedRequest(String),
    #[error("too many requests in a minute; the next may come in {} s", seconds(*.0))]
    RateLimited(Duration),
    #[error("the body ended before it was complete")]
    BodyIncomplete,
    #[error("the body did not come within {} s", .0.as_secs_f32())]
    RequestTimeout(Duration),
    #[error("the query is not valid: {0}")]
    InvalidQuery(String),
    #[error("the body must be JSON; send it with Content-Type: application/json")]
    UnsupportedMediaType,
    #[error("the body must be lines of JSON; send it with Content-Type: application/jsonl")]
    NotLines,
    #[error("the body is larger than {0} bytes")]
    BodyTooLarge(usize),
    #[error("this route answers with {0}")]
    NotAcceptable(&'static str),
    #[error("{0} has too many streams open")]
    TooManyStreams(&'static str),
    #[error("{0} has too many requests that wait for an answer")]
    TooManyWaits(&'static str),
    #[error("too many large bodies are being read; try again")]
    TooManyLargeBodies,
    #[error("too many keys that are not known yet are being looked up; try again")]
    TooManyStrangers,
    #[error(transparent)]
    Service(Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Internal(String),
}

/// Whole seconds, and not too few.
pub(in crate::http) fn seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

impl From<sqlx::Error> for ApiError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl ApiError {
    /// Refuses one member of the body.
    pub(in crate::http) fn field(pointer: &str, message: impl Into<String>) -> Self {
        Error::field(pointer, message).into()
    }

    /// The same error, for members of a value at this pointer.
    pub(in crate::http) fn beneath(self, pointer: &str) -> Self {
        let Self::Service(error) = self else { return self };
        error.under(pointer).into()
    }

    /// The same error, with another name for one member.
    pub(in crate::http) fn renamed(self, pointer: &str, new: &str) -> Self {
        let Self::Service(error) = self else { return self };
        error.renamed(pointer, new).into()
    }

    /// What the client is told. The cause of a failure of ours goes to the log, and only there.
    fn detail(&self, code: &'static str) -> String {
        if !matches!(self, Self::Store(_) | Self::Internal(_)) {
            return self.to_string();
        }
        tracing::error!(code, error = %self, "a request failed");
        match code {
            "database_unavailable" => "the database cannot be reached; try again".to_owned(),
            _ => "the service failed; its log says why".to_owned(),
        }
    }

    /// The run that makes the session busy.
    fn active_run_id(&self) -> Option<RunId> {
        if let Self::Service(
            Error::SessionBusy { active_run_id } | Error::ActionRequired { active_run_id },
        ) = self
        {
            return Some(*active_run_id);
        }
        None
    }

    /// The seconds after which a client may try again.
    fn retry_after(&self, status: StatusCode) -> Option<u64> {
        if let Self::RateLimited(wait) = self {
            return Some(seconds(*wait));
        }
        if matches!(self, Self::Service(Error::Overloaded)) {
            // Many runs must end before there is room for all clients that come back.
            return Some(5);
        }
        let is_brief = matches!(self, Self::Service(Error::SessionBusy { .. }));
        (is_brief || status == StatusCode::SERVICE_UNAVAILABLE).then_some(1)
    }

    /// Whether the vendors' SDKs, which retry by themselves, should retry; none where the request may
    /// have had an effect.
    fn should_retry(&self, status: StatusCode) -> Option<bool> {
        if status == StatusCode::CONFLICT {
            // The same request would be in the same conflict.
            return Some(false);
        }
        if let Self::Service(error) = self {
            return service::had_no_effect(error).then_some(true);
        }
        let had_no_effect = matches!(
            self,
            Self::RateLimited(_)
                | Self::TooManyStreams(_)
                | Self::TooManyWaits(_)
                | Self::TooManyLargeBodies
                | Self::TooManyStrangers
        );
        had_no_effect.then_some(true)
    }

    /// The wrong members of the body, and the forks that need the session.
    fn lists(self) -> (Vec<FieldError>, Vec<SessionId>) {
        if let Self::Service(Error::SessionHasForks(forks)) = self {
            return (Vec::new(), forks);
        }
        let errors =
            if let Self::Service(Error::Validation(errors)) = self { errors } else { vec![] };
        (errors, Vec::new())
    }

    /// The status and the code, which are part of the API.
    fn status_and_code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::NoRoute(_) => (StatusCode::NOT_FOUND, "route_not_found"),
            Self::NoMethod(_) => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::Unauthenticated => (StatusCode::UNAUTHORIZED, "unauthenticated"),
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, "forbidden"),
            Self::ForbiddenOrigin => (StatusCode::FORBIDDEN, "forbidden_origin"),
            Self::MisdirectedRequest(_) => (StatusCode::MISDIRECTED_REQUEST, "misdirected_request"),
            Self::RateLimited(_) => (StatusCode::TOO_MANY_REQUESTS, "rate_limited"),
            Self::BodyIncomplete => (StatusCode::BAD_REQUEST, "body_incomplete"),
            Self::RequestTimeout(_) => (StatusCode::REQUEST_TIMEOUT, "request_timeout"),
            Self::InvalidQuery(_) => (StatusCode::BAD_REQUEST, "invalid_query"),
            Self::UnsupportedMediaType | Self::NotLines => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type")
            }
            Self::BodyTooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large"),
            Self::NotAcceptable(_) => (StatusCode::NOT_ACCEPTABLE, "not_acceptable"),
            Self::TooManyStreams(_) => (StatusCode::SERVICE_UNAVAILABLE, "too_many_streams"),
            Self::TooManyWaits(_) => (StatusCode::SERVICE_UNAVAILABLE, "too_many_waits"),
            Self::TooManyLargeBodies => (StatusCode::SERVICE_UNAVAILABLE, "too_many_large_bodies"),
            Self::TooManyStrangers => (StatusCode::SERVICE_UNAVAILABLE, "too_many_unknown_keys"),
            Self::Service(error) => service::status_and_code(error),
            Self::Store(error) if error.may_pass() => {
                (StatusCode::SERVICE_UNAVAILABLE, "database_unavailable")
            }
            Self::Store(_) | Self::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        }
    }
}

/// The body of every error.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Problem {
    /// `about:blank`: the code says what kind of problem it is.
    r#type: &'static str,
    /// The status in words.
    title: &'static str,
    /// The status.
    status: u16,
    /// What happened this time, for people.
    detail: String,
    /// The path of the request.
    instance: String,
    /// A stable word for programs.
    code: &'static str,
    /// The `X-Request-Id` of the response, to be found in the service's log.
    request_id: String,
    /// The members of the body that are wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    /// The run that makes the session busy, for `session_busy` and
    /// `action_required`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    active_run_id: Option<RunId>,
    /// The forks that need the session, at most 100 of them, for `session_has_forks`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    forks: Vec<SessionId>,
    /// The events of the request, from the first on, that were applied before one was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<usize>,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, code) = self.status_and_code();
        let detail = self.detail(code);
        let (retry_after, should_retry) = (self.retry_after(status), self.should_retry(status));
        let active_run_id = self.active_run_id();
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
            applied: None,
        };
        let mut response = status.into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if status == StatusCode::REQUEST_TIMEOUT {
            // The rest of the body would be in the way of another request.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(should_retry) = should_retry {
            let word = if should_retry { "true" } else { "false" };
            headers.insert(SHOULD_RETRY, HeaderValue::from_static(word));
        }
        // Written out by the outermost layer, which knows the path and the request's id.
        response.extensions_mut().insert(problem);
        response
    }
}

/// The answer to a request of which so many events were applied before one was refused.
pub(in crate::http) fn refused_behind(error: ApiError, applied: usize) -> Response {
    let mut response = error.into_response();
    if applied > 0 {
        // Something was done.
        response.headers_mut().remove(SHOULD_RETRY);
        if let Some(problem) = response.extensions_mut().get_mut::<Problem>() {
            problem.applied = Some(applied);
        }
    }
    response
}

/// Writes out the problem that a handler left in its response.
pub(in crate::http) fn write_problem(response: Response, path: &str, request_id: &str) -> Response {
    let (mut parts, body) = response.into_parts();
    let Some(mut problem) = parts.extensions.remove::<Problem>() else {
        return Response::from_parts(parts, body);
    };
    path.clone_into(&mut problem.instance);
    request_id.clone_into(&mut problem.request_id);
    let json = serde_json::to_vec(&problem).unwrap_or_default();
    let kind = HeaderValue::from_static("application/problem+json");
    parts.headers.insert(CONTENT_TYPE, kind);
    Response::from_parts(parts, Body::from(json))
}

pub(in crate::http) async fn no_route(uri: http::Uri) -> ApiError {
    ApiError::NoRoute(public(uri.path()))
}

pub(in crate::http) async fn no_method(method: http::Method) -> ApiError {
    ApiError::NoMethod(method.to_string())
}

/// A handler that panicked is a defect; the request ends as any other that failed.
#[expect(clippy::needless_pass_by_value, reason = "the shape that the layer takes")]
pub(in crate::http) fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    ApiError::Internal(format!("a handler panicked: {}", text.unwrap_or_default())).into_response()
}
