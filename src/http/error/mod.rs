//! Errors of the HTTP interface: problem documents (RFC 9457) with stable codes.

mod format;
mod managed_agents;
mod openai;
mod problem;
mod service;

use std::any::Any;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::StatusCode;

use crate::domain::api_key::Scope;
use crate::domain::browser_token::BrowserScope;
use crate::domain::ids::{RunId, SessionId};
use crate::domain::quota::QuotaExceeded;
use crate::http::server::forwarded::public;
use crate::service::Error;
pub(in crate::http) use crate::service::FieldError;
use crate::store::StoreError;
pub(in crate::http) use format::ErrorFormat;
pub(in crate::http) use managed_agents::ManagedAgentsError;
pub(in crate::http) use openai::OpenAiError;
pub(in crate::http) use problem::{Problem, refused_after, write_problem};

/// The reason why a request is refused or has failed.
#[derive(Debug, thiserror::Error)]
pub(in crate::http) enum ApiError {
    #[error("there is no route {0}")]
    NoRoute(String),
    #[error("this route does not allow {0}")]
    NoMethod(String),
    // A log or terminal would mask a word after `Bearer` that could be a key.
    #[error(
        "an API key is required: send it as `Authorization: Bearer $TWOSTEP_KEY` or \
         `x-api-key: $TWOSTEP_KEY`"
    )]
    Unauthenticated,
    #[error(
        "the key, token or ticket of the request is not valid: it is unknown, expired or revoked; \
         send a valid one"
    )]
    InvalidCredential,
    #[error(
        "metrics need a key at this address: the operator sets it in TWOSTEP_METRICS_KEY, or serves \
         metrics at an address of their own with --metrics-addr"
    )]
    MetricsKeyMissing,
    #[error("the key lacks the scope `{}`", .0.as_str())]
    Forbidden(Scope),
    #[error("the browser token lacks the scope `{}`", .0.as_str())]
    BrowserTokenLacks(BrowserScope),
    #[error("browser tokens are not accepted here: {0}")]
    NoBrowserTokens(&'static str),
    #[error("web pages of this origin are not allowed; --cors-origins allows origins")]
    ForbiddenOrigin,
    #[error("{0:?} is not a host of this service; --allowed-hosts allows hosts")]
    MisdirectedRequest(String),
    #[error("the request has {0} Host headers; exactly one is allowed")]
    InvalidHost(usize),
    #[error("too many requests; the next is allowed in {} s", seconds(*.0))]
    RateLimited(Duration),
    #[error("the body ended before it was complete")]
    BodyIncomplete,
    #[error("the body was not received within {} s", .0.as_secs_f32())]
    RequestTimeout(Duration),
    #[error("the query is not valid: {0}")]
    InvalidQuery(FieldError),
    #[error("the body must be JSON; send it with Content-Type: application/json")]
    UnsupportedMediaType,
    #[error("the body must be JSON Lines; send it with Content-Type: application/jsonl")]
    NotLines,
    #[error("the body is in the charset {0:?}; send it in UTF-8, with no charset or charset=utf-8")]
    UnsupportedCharset(String),
    #[error("the body is compressed (Content-Encoding); send it uncompressed")]
    CompressedBody,
    #[error("the body is larger than {0} bytes")]
    BodyTooLarge(usize),
    #[error("this route returns {0}")]
    NotAcceptable(&'static str),
    #[error("{0} has too many streams open")]
    TooManyStreams(&'static str),
    #[error("{0} has too many requests that wait for a run")]
    TooManyWaits(&'static str),
    #[error("too many large bodies are being read; try again")]
    TooManyLargeBodies,
    #[error("too many unknown keys are being looked up; try again")]
    TooManyUnknownKeys,
    #[error(transparent)]
    Service(Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Internal(String),
}

/// The duration in whole seconds, rounded up.
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

    /// Refuses a query parameter, or the whole query if the name is empty.
    pub(in crate::http) fn query(parameter: &str, message: impl Into<String>) -> Self {
        Self::InvalidQuery(FieldError::in_query(parameter, message))
    }

    /// The `detail` of the problem document. The cause of an internal error is logged, and hidden from
    /// the client.
    fn detail(&self, code: &'static str) -> String {
        if !matches!(self, Self::Store(_) | Self::Internal(_)) {
            return self.to_string();
        }
        tracing::error!(code, error = %self, "request failed");
        match code {
            "database_unavailable" => "the database is unavailable; try again".to_owned(),
            _ => "internal error; the log of the service has the cause".to_owned(),
        }
    }

    /// The media types of bodies that the route accepts, if the request has another one.
    const fn accepted_types(&self) -> Option<&'static str> {
        if matches!(self, Self::NotLines) {
            return Some("application/jsonl, application/x-ndjson");
        }
        if matches!(self, Self::UnsupportedMediaType) { Some("application/json") } else { None }
    }

    /// The value of `WWW-Authenticate` (RFC 6750, section 3).
    const fn challenge(&self) -> &'static str {
        if matches!(self, Self::InvalidCredential) {
            "Bearer error=\"invalid_token\""
        } else {
            "Bearer"
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
        if let Self::Service(Error::Overloaded(overload)) = self {
            return Some(seconds(overload.retry_after));
        }
        let is_brief = matches!(self, Self::Service(Error::SessionBusy { .. }));
        (is_brief || status == StatusCode::SERVICE_UNAVAILABLE).then_some(1)
    }

    /// Whether the vendors' SDKs, which retry by themselves, should retry; none where the request may
    /// have had an effect.
    fn should_retry(&self, status: StatusCode) -> Option<bool> {
        if status == StatusCode::CONFLICT || self.quota().is_some() {
            // The same request would be refused again.
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
                | Self::TooManyUnknownKeys
        );
        had_no_effect.then_some(true)
    }

    /// The quota that does not allow the request.
    const fn quota(&self) -> Option<QuotaExceeded> {
        if let Self::Service(Error::QuotaExceeded(exceeded)) = self {
            Some(*exceeded)
        } else {
            None
        }
    }

    /// The wrong members of the body or parameters of the query, and the forks that need the session.
    fn lists(self) -> (Vec<FieldError>, Vec<SessionId>) {
        if let Self::Service(Error::SessionHasForks(forks)) = self {
            return (Vec::new(), forks);
        }
        if let Self::InvalidQuery(error) | Self::Service(Error::InvalidCursor(error)) = self {
            return (vec![error], Vec::new());
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
            Self::Unauthenticated | Self::InvalidCredential | Self::MetricsKeyMissing => {
                (StatusCode::UNAUTHORIZED, "unauthenticated")
            }
            Self::Forbidden(_) | Self::BrowserTokenLacks(_) | Self::NoBrowserTokens(_) => {
                (StatusCode::FORBIDDEN, "forbidden")
            }
            Self::ForbiddenOrigin => (StatusCode::FORBIDDEN, "forbidden_origin"),
            Self::MisdirectedRequest(_) => (StatusCode::MISDIRECTED_REQUEST, "misdirected_request"),
            Self::InvalidHost(_) => (StatusCode::BAD_REQUEST, "invalid_host"),
            Self::RateLimited(_) => (StatusCode::TOO_MANY_REQUESTS, "rate_limited"),
            Self::BodyIncomplete => (StatusCode::BAD_REQUEST, "body_incomplete"),
            Self::RequestTimeout(_) => (StatusCode::REQUEST_TIMEOUT, "request_timeout"),
            Self::InvalidQuery(_) => (StatusCode::BAD_REQUEST, "invalid_query"),
            Self::UnsupportedMediaType
            | Self::UnsupportedCharset(_)
            | Self::NotLines
            | Self::CompressedBody => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type")
            }
            Self::BodyTooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large"),
            Self::NotAcceptable(_) => (StatusCode::NOT_ACCEPTABLE, "not_acceptable"),
            Self::TooManyStreams(_) => (StatusCode::SERVICE_UNAVAILABLE, "too_many_streams"),
            Self::TooManyWaits(_) => (StatusCode::SERVICE_UNAVAILABLE, "too_many_waits"),
            Self::TooManyLargeBodies => (StatusCode::SERVICE_UNAVAILABLE, "too_many_large_bodies"),
            Self::TooManyUnknownKeys => (StatusCode::SERVICE_UNAVAILABLE, "too_many_unknown_keys"),
            Self::Service(error) => service::status_and_code(error),
            Self::Store(error) if error.may_pass() => {
                (StatusCode::SERVICE_UNAVAILABLE, "database_unavailable")
            }
            Self::Store(_) | Self::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        }
    }
}

/// Responds to an unknown path.
pub(in crate::http) async fn no_route(uri: http::Uri) -> ApiError {
    ApiError::NoRoute(public(uri.path()))
}

/// Responds to a method that a path does not have.
pub(in crate::http) async fn no_method(method: http::Method) -> ApiError {
    ApiError::NoMethod(method.to_string())
}

/// Responds to a panic in a handler with an internal error.
#[expect(clippy::needless_pass_by_value, reason = "the signature that the layer takes")]
pub(in crate::http) fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    ApiError::Internal(format!("handler panicked: {}", text.unwrap_or_default())).into_response()
}
