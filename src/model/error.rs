//! Errors of requests to the model, and which of them can be retried.

mod kind;
mod report;

use std::io;
use std::time::Duration;

use super::reply_head::ReplyHead;
pub use kind::ErrorKind;

/// A failed request to the model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The connection failed, or broke before the headers arrived.
    #[error("the model could not be reached: {}", causes(.0))]
    Connect(#[source] reqwest::Error),
    /// The server's certificate is not valid.
    #[error(
        "the certificate of the model's server is not accepted: {}; correct the certificate or the \
         base URL, or name the file with its authority in SSL_CERT_FILE",
        causes(.0)
    )]
    Certificate(#[source] reqwest::Error),
    /// The server reported an error, by its status or inside the stream.
    #[error("the model answered {}: {}", describe(*.status, .kind), or_none(.message))]
    Api {
        /// The HTTP status; `None` for an error inside a stream.
        status: Option<u16>,
        /// The error type.
        kind: ErrorKind,
        /// The server's message; empty if there is none.
        message: String,
        /// Paths of the rejected blocks, as the server writes them, where it lists them separately
        /// from its message.
        paths: Box<[String]>,
        /// The values of the response headers.
        head: ReplyHead,
    },
    /// The connection broke inside the stream.
    #[error("the model's stream was interrupted: {0}")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The stream ended before its last event.
    #[error("the model's stream ended before its reply was complete")]
    Truncated,
    /// No byte arrived within the idle timeout.
    #[error("the model sent nothing for {} s", .0.as_secs())]
    Idle(Duration),
    /// Nothing but pings arrived for this time.
    #[error("the model sent only pings for {} s", .0.as_secs())]
    NoContent(Duration),
    /// The run's limit of seconds passed before the reply was complete.
    #[error("the model's reply was not complete within the run's limit of {0} s")]
    TimeLimit(u32),
    /// The stream violates the protocol.
    #[error("the model's stream cannot be read: {0}")]
    Malformed(String),
    /// The reply has a call that the server would refuse as part of later requests.
    #[error("the model's reply cannot be sent back: {0}")]
    BadCall(String),
    /// The reply exceeds the size limit.
    #[error("the model's reply is larger than {0} bytes")]
    TooLarge(usize),
    /// No request was sent: the circuit breaker stayed open during a wait of this length.
    #[error("no request was sent to the model, because all requests failed for {} s", .0.as_secs())]
    CircuitOpen(Duration),
    /// No request was sent: this process has no provider of this name.
    #[error(
        "the provider {0:?} of the session's model is not configured in the process that executes the \
         run; name it in the file of --model-providers of all processes"
    )]
    UnknownProvider(Box<str>),
}

/// Joins an error with its sources: the outermost message says only that a request failed.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn or_none(message: &str) -> &str {
    if message.is_empty() { "no readable error" } else { message }
}

fn describe(status: Option<u16>, kind: &ErrorKind) -> String {
    match status {
        Some(status) => format!("{status} {}", kind.as_str()),
        None => kind.as_str().to_owned(),
    }
}

impl From<reqwest::Error> for ModelError {
    /// A request without a response. The URL, which may contain a password, is left out.
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        if rejects_certificate(&error) { Self::Certificate(error) } else { Self::Connect(error) }
    }
}

/// The TLS error among the causes of an error.
fn tls_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(error) = error.downcast_ref() {
        return Some(error);
    }
    // The source of an I/O error is that of the error in it.
    let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    match inner {
        Some(inner) => tls_error(inner),
        None => error.source().and_then(tls_error),
    }
}

/// Returns true if the certificate of the server was rejected. Only the owner of the server or the
/// operator can change that.
fn rejects_certificate(error: &reqwest::Error) -> bool {
    matches!(tls_error(error), Some(rustls::Error::InvalidCertificate(_)))
}

impl ModelError {
    /// Returns true if the same request may succeed later.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Connect(_)
            | Self::Broken(_)
            | Self::Truncated
            | Self::Idle(_)
            | Self::NoContent(_)
            | Self::BadCall(_) => true,
            Self::Api { status, kind, head, .. } => {
                // A spend limit stays reached, even if a proxy advises a retry.
                let is_spent = *kind == ErrorKind::SpendLimit;
                !is_spent && head.should_retry.unwrap_or_else(|| kind.retryable(*status))
            }
            Self::Certificate(_)
            | Self::TimeLimit(_)
            | Self::Malformed(_)
            | Self::TooLarge(_)
            | Self::CircuitOpen(_)
            | Self::UnknownProvider(_) => false,
        }
    }

    /// Returns true if the model is unavailable, so that another model may answer instead: it is
    /// overloaded or unreachable, limits the rate of requests, or all requests to it fail.
    pub fn is_unavailability(&self) -> bool {
        match self {
            Self::Connect(_)
            | Self::Broken(_)
            | Self::Truncated
            | Self::Idle(_)
            | Self::NoContent(_)
            | Self::CircuitOpen(_) => true,
            Self::Api { kind, .. } => matches!(
                kind,
                ErrorKind::Overloaded | ErrorKind::Api | ErrorKind::Timeout | ErrorKind::RateLimit
            ),
            Self::Certificate(_)
            | Self::TimeLimit(_)
            | Self::Malformed(_)
            | Self::BadCall(_)
            | Self::TooLarge(_)
            | Self::UnknownProvider(_) => false,
        }
    }

    /// The status and header values of the response, if there was one.
    pub fn head(&self) -> Option<(u16, &ReplyHead)> {
        match self {
            Self::Api { status, head, .. } => Some(((*status)?, head)),
            Self::Connect(_)
            | Self::Certificate(_)
            | Self::Broken(_)
            | Self::Truncated
            | Self::Idle(_)
            | Self::NoContent(_)
            | Self::TimeLimit(_)
            | Self::Malformed(_)
            | Self::BadCall(_)
            | Self::TooLarge(_)
            | Self::CircuitOpen(_)
            | Self::UnknownProvider(_) => None,
        }
    }

    /// Returns true if the request exceeds the server's limit of tokens or bytes.
    pub fn is_too_long(&self) -> bool {
        let Self::Api { kind, message, .. } = self else { return false };
        *kind == ErrorKind::RequestTooLarge
            || (*kind == ErrorKind::InvalidRequest && message.contains("prompt is too long"))
    }

    /// Returns true if the error is caused by the request itself: it is invalid or too long.
    pub fn is_refusal(&self) -> bool {
        let Self::Api { kind, .. } = self else { return false };
        matches!(kind, ErrorKind::RequestTooLarge | ErrorKind::InvalidRequest)
    }

    /// The name of the error in records and logs.
    pub fn name(&self) -> &str {
        match self {
            Self::Connect(_) => "connect",
            Self::Certificate(_) => "tls_certificate",
            Self::Api { kind, .. } => kind.as_str(),
            Self::Broken(_) => "broken_stream",
            Self::Truncated => "truncated_stream",
            Self::Idle(_) => "idle_timeout",
            Self::NoContent(_) => "only_pings",
            Self::TimeLimit(_) => "time_limit",
            Self::Malformed(_) => "malformed_reply",
            Self::BadCall(_) => "invalid_call",
            Self::TooLarge(_) => "reply_too_large",
            Self::CircuitOpen(_) => "shut_out",
            Self::UnknownProvider(_) => "unknown_provider",
        }
    }

    /// The delay that the server requests before the next try.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Api { head, .. } => head.retry_after,
            Self::Connect(_)
            | Self::Certificate(_)
            | Self::Broken(_)
            | Self::Truncated
            | Self::Idle(_)
            | Self::NoContent(_)
            | Self::TimeLimit(_)
            | Self::Malformed(_)
            | Self::BadCall(_)
            | Self::TooLarge(_)
            | Self::CircuitOpen(_)
            | Self::UnknownProvider(_) => None,
        }
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
    fn overload_is_retried_and_a_spend_limit_is_not() {
        assert!(api(Some(529), ErrorKind::Overloaded).retryable());
        assert!(api(None, ErrorKind::Overloaded).retryable());
        let spend = ErrorKind::parse("rate_limit_error", Some("enforced_spend_limit_reached"));
        assert!(!api(Some(429), spend).retryable());
    }

    #[test]
    fn without_a_readable_body_the_status_decides() {
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
    fn retry_advice_overrides_the_status_but_not_a_spend_limit() {
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
