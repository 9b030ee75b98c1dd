//! What can go wrong with a request to the model, and what may be tried again.

use std::time::Duration;

use super::ReplyHead;
use super::retry::MAX_RETRY_AFTER;
use crate::domain::outcome::{ErrorType, RunError};

/// A request that gave no reply.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// No connection, or it broke before the headers came.
    #[error("the model could not be reached: {}", causes(.0))]
    Connect(#[source] reqwest::Error),
    /// The server answered with an error, as the status or inside the stream.
    #[error("the model answered {}: {message}", describe(*.status, .kind))]
    Api {
        /// The HTTP status; none for an error inside a stream.
        status: Option<u16>,
        /// The server's word for it.
        kind: ErrorKind,
        /// The server's sentence.
        message: String,
        /// The blocks of the request that it refuses, in the server's words, where it names them
        /// beside its sentence.
        paths: Box<[String]>,
        /// What the headers said.
        head: ReplyHead,
    },
    /// The connection broke inside the stream.
    #[error("the model's stream broke: {0}")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The stream ended before its last event.
    #[error("the model's stream ended before its reply was whole")]
    Truncated,
    /// No byte came for too long.
    #[error("the model sent nothing for {} s", .0.as_secs())]
    Idle(Duration),
    /// The stream is not what the protocol says.
    #[error("the model's stream cannot be read: {0}")]
    Malformed(String),
    /// The reply is larger than any reply can be.
    #[error("the model's reply is larger than {0} bytes")]
    TooLarge(usize),
    /// It was not asked, because it failed everybody for so long.
    #[error("the model was not asked, because it failed all requests for {} s", .0.as_secs())]
    ShutOut(Duration),
}

/// An error with all that caused it: the outermost one only says that a request failed.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn describe(status: Option<u16>, kind: &ErrorKind) -> String {
    match status {
        Some(status) => format!("{status} {}", kind.as_str()),
        None => kind.as_str().to_owned(),
    }
}

/// The server's word for an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request is wrong.
    InvalidRequest,
    /// The key is wrong.
    Authentication,
    /// The account cannot pay.
    Billing,
    /// The key may not do this.
    Permission,
    /// No such model or path.
    NotFound,
    /// The request conflicts with another one.
    Conflict,
    /// The request is too large.
    RequestTooLarge,
    /// Too many requests.
    RateLimit,
    /// The account's spend limit is reached; it stays so until the month ends.
    SpendLimit,
    /// The server failed.
    Api,
    /// The server gave up waiting for itself.
    Timeout,
    /// The server is overloaded.
    Overloaded,
    /// A word that this version does not know.
    Other(String),
}

impl ErrorKind {
    /// Reads the server's words: `details.error_code` if it says more, else `error.type`.
    pub fn parse(kind: &str, code: Option<&str>) -> Self {
        if let Some("enforced_spend_limit_reached" | "contract_spend_limit_reached") = code {
            return Self::SpendLimit;
        }
        match kind {
            "invalid_request_error" => Self::InvalidRequest,
            "authentication_error" => Self::Authentication,
            "billing_error" => Self::Billing,
            "permission_error" => Self::Permission,
            "not_found_error" => Self::NotFound,
            "conflict_error" => Self::Conflict,
            "request_too_large" => Self::RequestTooLarge,
            "rate_limit_error" => Self::RateLimit,
            "api_error" => Self::Api,
            "timeout_error" => Self::Timeout,
            "overloaded_error" => Self::Overloaded,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The kind of an error whose body says nothing.
    pub fn of_status(status: u16) -> Self {
        match status {
            401 => Self::Authentication,
            402 => Self::Billing,
            403 => Self::Permission,
            404 => Self::NotFound,
            408 | 504 => Self::Timeout,
            409 => Self::Conflict,
            413 => Self::RequestTooLarge,
            429 => Self::RateLimit,
            529 => Self::Overloaded,
            500.. => Self::Api,
            300..=399 => Self::Other("redirect".to_owned()),
            _ => Self::InvalidRequest,
        }
    }

    /// The word on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::InvalidRequest => "invalid_request_error",
            Self::Authentication => "authentication_error",
            Self::Billing => "billing_error",
            Self::Permission => "permission_error",
            Self::NotFound => "not_found_error",
            Self::Conflict => "conflict_error",
            Self::RequestTooLarge => "request_too_large",
            Self::RateLimit => "rate_limit_error",
            Self::SpendLimit => "spend_limit_reached",
            Self::Api => "api_error",
            Self::Timeout => "timeout_error",
            Self::Overloaded => "overloaded_error",
            Self::Other(word) => word,
        }
    }

    fn retryable(&self, status: Option<u16>) -> bool {
        match self {
            Self::Conflict | Self::RateLimit | Self::Api | Self::Timeout | Self::Overloaded => true,
            Self::Authentication
            | Self::Billing
            | Self::Permission
            | Self::NotFound
            | Self::RequestTooLarge
            | Self::SpendLimit => false,
            // A status that a proxy may have chosen counts, whatever the body says.
            Self::InvalidRequest | Self::Other(_) => {
                status.is_some_and(|status| matches!(status, 408 | 409 | 429 | 500..))
            }
        }
    }
}

impl ModelError {
    /// Whether the same request may succeed later.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Broken(_) | Self::Truncated | Self::Idle(_) => true,
            Self::Api { status, kind, head, .. } => {
                // What has run out stays so, whatever a proxy on the way thinks.
                let is_spent = *kind == ErrorKind::SpendLimit;
                !is_spent && head.should_retry.unwrap_or_else(|| kind.retryable(*status))
            }
            Self::Malformed(_) | Self::TooLarge(_) | Self::ShutOut(_) => false,
        }
    }

    /// What the headers of the reply said, if there was one.
    pub fn head(&self) -> Option<(u16, &ReplyHead)> {
        match self {
            Self::Api { status, head, .. } => Some(((*status)?, head)),
            Self::Connect(_)
            | Self::Broken(_)
            | Self::Truncated
            | Self::Idle(_)
            | Self::Malformed(_)
            | Self::TooLarge(_)
            | Self::ShutOut(_) => None,
        }
    }

    /// Whether the request has more tokens, or more bytes, than the model's side takes.
    pub fn is_too_long(&self) -> bool {
        let Self::Api { kind, message, .. } = self else { return false };
        *kind == ErrorKind::RequestTooLarge
            || (*kind == ErrorKind::InvalidRequest && message.contains("prompt is too long"))
    }

    /// Whether it is the request that is wrong, or too long.
    pub fn is_refusal(&self) -> bool {
        let Self::Api { kind, .. } = self else { return false };
        matches!(kind, ErrorKind::RequestTooLarge | ErrorKind::InvalidRequest)
    }

    /// A word for it, for records and logs.
    pub fn word(&self) -> &str {
        match self {
            Self::Connect(_) => "connect",
            Self::Api { kind, .. } => kind.as_str(),
            Self::Broken(_) => "broken_stream",
            Self::Truncated => "truncated_stream",
            Self::Idle(_) => "idle_timeout",
            Self::Malformed(_) => "malformed_reply",
            Self::TooLarge(_) => "reply_too_large",
            Self::ShutOut(_) => "shut_out",
        }
    }

    /// How long the server asks us to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Api { head, .. } => head.retry_after,
            Self::Connect(_)
            | Self::Broken(_)
            | Self::Truncated
            | Self::Idle(_)
            | Self::Malformed(_)
            | Self::TooLarge(_)
            | Self::ShutOut(_) => None,
        }
    }

    /// The failure as clients see it. The server's own sentence may quote the request, so only
    /// its kind is told.
    pub fn for_clients(&self) -> RunError {
        let (r#type, message) = match self {
            Self::Api { kind, .. } => (
                match kind {
                    ErrorKind::RateLimit => ErrorType::ModelRateLimitedError,
                    ErrorKind::Overloaded | ErrorKind::Timeout | ErrorKind::Api => {
                        ErrorType::ModelOverloadedError
                    }
                    ErrorKind::Billing | ErrorKind::SpendLimit => ErrorType::BillingError,
                    ErrorKind::InvalidRequest
                    | ErrorKind::Authentication
                    | ErrorKind::Permission
                    | ErrorKind::NotFound
                    | ErrorKind::Conflict
                    | ErrorKind::RequestTooLarge
                    | ErrorKind::Other(_) => ErrorType::ModelRequestFailedError,
                },
                match self.retry_after().filter(|wait| *wait > MAX_RETRY_AFTER) {
                    Some(wait) => format!(
                        "the model answered with {} and asks to wait for {} s, longer than a run \
                         waits",
                        kind.as_str(),
                        wait.as_secs()
                    ),
                    None => format!("the model answered with {}", kind.as_str()),
                },
            ),
            Self::Connect(_) => {
                (ErrorType::ModelOverloadedError, "the model could not be reached".to_owned())
            }
            Self::ShutOut(_) => (
                ErrorType::ModelOverloadedError,
                "the model failed all requests for too long to be asked".to_owned(),
            ),
            Self::Broken(_) | Self::Truncated | Self::Idle(_) => {
                (ErrorType::ModelOverloadedError, "the model's stream broke off".to_owned())
            }
            Self::Malformed(_) | Self::TooLarge(_) => (
                ErrorType::ModelRequestFailedError,
                "the model's reply could not be read".to_owned(),
            ),
        };
        RunError { r#type, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(status: Option<u16>, kind: ErrorKind) -> ModelError {
        let (message, paths) = (String::new(), Box::default());
        ModelError::Api { status, kind, message, paths, head: ReplyHead::default() }
    }

    #[test]
    fn overload_is_tried_again_and_a_spend_limit_is_not() {
        assert!(api(Some(529), ErrorKind::Overloaded).retryable());
        assert!(api(None, ErrorKind::Overloaded).retryable());
        let spend = ErrorKind::parse("rate_limit_error", Some("enforced_spend_limit_reached"));
        assert!(!api(Some(429), spend).retryable());
    }

    #[test]
    fn a_status_without_a_readable_body_still_decides() {
        for (status, retryable) in [
            (302, false),
            (400, false),
            (401, false),
            (408, true),
            (413, false),
            (429, true),
            (502, true),
        ] {
            let kind = ErrorKind::of_status(status);
            assert_eq!(api(Some(status), kind).retryable(), retryable, "{status}");
        }
    }

    #[test]
    fn the_servers_advice_counts_more_than_the_status_but_not_than_a_spend_limit() {
        let advised = |status, kind, advice| {
            let head = ReplyHead { should_retry: Some(advice), ..ReplyHead::default() };
            let (status, message, paths) = (Some(status), String::new(), Box::default());
            ModelError::Api { status, kind, message, paths, head }.retryable()
        };
        assert!(advised(400, ErrorKind::InvalidRequest, true));
        assert!(!advised(529, ErrorKind::Overloaded, false));
        assert!(!advised(429, ErrorKind::SpendLimit, true));
    }
}
