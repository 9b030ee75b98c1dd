//! The failure of a request to the model, as clients see it: its kind, its cause, the message of the
//! provider, and what to change.

use std::error::Error;
use std::io;

use super::{ErrorKind, ModelError, tls_error};
use crate::domain::hidden_text::into_shown;
use crate::domain::outcome::{ErrorType, RunError};
use crate::model::retry::MAX_RETRY_AFTER;

/// The maximum length of the provider's message, in characters.
const MAX_MESSAGE: usize = 500;
const POST_LESS: &str = "post less, or continue in a new session";

impl ModelError {
    /// The failure as clients see it.
    pub fn for_clients(&self) -> RunError {
        let mut message = self.summary();
        if let Some(detail) = self.detail() {
            message = format!("{message}: {}", detail.trim_end_matches('.'));
        }
        if let Some(remedy) = self.remedy() {
            message = format!("{message}; {remedy}");
        }
        RunError {
            r#type: self.error_type(),
            message,
            reason: Some(self.name().to_owned()),
            provider_message: self.provider_message(),
        }
    }

    /// The cause of the failure, as far as it is known: the provider's message, or the reason why
    /// there is no connection.
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Api { .. } => self.provider_message(),
            Self::Connect(error) => connection_failure(error).map(str::to_owned),
            Self::Certificate(error) => certificate_failure(error),
            Self::Broken(_)
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

    /// Returns true if the request failed although it was retried, or could be retried no more.
    pub fn is_after_retries(&self) -> bool {
        let is_long = self.retry_after().is_some_and(|wait| wait > MAX_RETRY_AFTER);
        (self.retryable() && !is_long) || matches!(self, Self::CircuitOpen(_))
    }

    fn provider_message(&self) -> Option<String> {
        let Self::Api { message, .. } = self else { return None };
        let message = cleaned(message);
        (!message.is_empty()).then_some(message)
    }

    fn error_type(&self) -> ErrorType {
        match self {
            Self::Api { kind, .. } => match kind {
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
            Self::Connect(_)
            | Self::CircuitOpen(_)
            | Self::Broken(_)
            | Self::Truncated
            | Self::Idle(_)
            | Self::NoContent(_)
            | Self::TimeLimit(_) => ErrorType::ModelOverloadedError,
            Self::Certificate(_)
            | Self::Malformed(_)
            | Self::BadCall(_)
            | Self::TooLarge(_)
            | Self::UnknownProvider(_) => ErrorType::ModelRequestFailedError,
        }
    }

    fn summary(&self) -> String {
        match self {
            Self::Api { kind, .. } => {
                let kind = kind.as_str();
                match self.retry_after().filter(|wait| *wait > MAX_RETRY_AFTER) {
                    Some(wait) => format!(
                        "the model answered with {kind} and requests a pause of {} s, which is \
                         longer than a run waits",
                        wait.as_secs()
                    ),
                    None => format!("the model answered with {kind}"),
                }
            }
            Self::Connect(_) => "the model could not be reached".to_owned(),
            Self::Certificate(_) => "the certificate of the model's server is not valid".to_owned(),
            Self::CircuitOpen(_) => {
                "no request was sent to the model, because all requests have failed for too long"
                    .to_owned()
            }
            Self::Broken(_) | Self::Truncated | Self::Idle(_) => {
                "the model's stream was interrupted".to_owned()
            }
            Self::Malformed(_) => "the model's reply could not be read".to_owned(),
            Self::NoContent(_)
            | Self::TimeLimit(_)
            | Self::BadCall(_)
            | Self::TooLarge(_)
            | Self::UnknownProvider(_) => self.to_string(),
        }
    }

    /// The change that lets the request succeed, if one is known.
    fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::Api { kind, message, .. } => match kind {
                ErrorKind::InvalidRequest if self.is_too_long() || is_over_context(message) => {
                    POST_LESS
                }
                ErrorKind::InvalidRequest if limits_output(message) => {
                    "lower max_tokens of the session"
                }
                ErrorKind::Authentication | ErrorKind::Permission
                    if credential_remedy(message).is_some() =>
                {
                    return credential_remedy(message);
                }
                ErrorKind::InvalidRequest => "the same request fails again: change what it names",
                ErrorKind::Authentication => {
                    "the operator must give the service a valid API key of the model's server"
                }
                ErrorKind::Permission => {
                    "use a model and features that the API key of the service permits, or another \
                     key"
                }
                ErrorKind::NotFound => {
                    "check the model of the session, which the API key must permit, and the base URL \
                     of the model's server"
                }
                ErrorKind::RequestTooLarge => POST_LESS,
                ErrorKind::Billing => "the operator must correct the billing of the account",
                ErrorKind::SpendLimit => "the operator must raise the spend limit of the account",
                ErrorKind::RateLimit
                | ErrorKind::Overloaded
                | ErrorKind::Timeout
                | ErrorKind::Api
                | ErrorKind::Conflict => "retry the run later",
                ErrorKind::Other(name) if name == "redirect" => {
                    "the operator must correct the base URL of the model's server"
                }
                ErrorKind::Other(_) => return None,
            },
            Self::Connect(_) => {
                "the operator must check the base URL of the model's server, and that the server runs"
            }
            Self::Certificate(_) => {
                "the operator must correct the certificate or the base URL, or name the file with \
                 its authority in SSL_CERT_FILE"
            }
            Self::CircuitOpen(_) | Self::Broken(_) | Self::Truncated | Self::Idle(_) => {
                "retry the run later"
            }
            Self::NoContent(_)
            | Self::TimeLimit(_)
            | Self::Malformed(_)
            | Self::BadCall(_)
            | Self::TooLarge(_)
            | Self::UnknownProvider(_) => return None,
        })
    }
}

/// The change that makes the credentials of a provider in a cloud valid, by the message of the cloud.
fn credential_remedy(message: &str) -> Option<&'static str> {
    let names = |part| message.contains(part);
    Some(if names("Signature expired") || names("Signature not yet current") {
        "the operator must correct the clock of the machine"
    } else if names("security token") && names("expired") {
        "the operator must renew the session token of the provider and restart the service"
    } else if names("security token") || names("request signature we calculated") {
        "the operator must correct the access key, the secret and the session token of the provider"
    } else if names("Credential should be scoped to") {
        "the operator must correct the region of the provider"
    } else if names("returned no access token") || names("authentication credentials") {
        "the operator must correct the service account of the provider"
    } else {
        return None;
    })
}

fn is_over_context(message: &str) -> bool {
    message.contains("exceed context limit") || message.contains("maximum context length")
}

fn limits_output(message: &str) -> bool {
    ["max_tokens", "max_completion_tokens", "max_output_tokens"]
        .iter()
        .any(|name| message.contains(name))
}

/// The message of a server on one line, bounded, and without the keys that servers quote.
fn cleaned(message: &str) -> String {
    let words = message.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).map(without_key).collect();
    let line = words.join(" ");
    let mut end = line.char_indices().map(|(index, _)| index).skip(MAX_MESSAGE);
    let bounded = match end.next() {
        Some(end) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    };
    into_shown(bounded)
}

/// Replaces a word with a key, such as `sk-proj-…`, which some servers quote in part.
fn without_key(word: &str) -> &str {
    let is_key = |at: usize| {
        let before = word.get(..at).and_then(|before| before.chars().next_back());
        !before.is_some_and(char::is_alphanumeric)
    };
    if word.match_indices("sk-").any(|(at, _)| is_key(at)) { "[key]" } else { word }
}

/// The reason why a connection failed. The text of the error may name internal addresses.
fn connection_failure(error: &reqwest::Error) -> Option<&'static str> {
    let io = sources(error).find_map(|cause| cause.downcast_ref::<io::Error>());
    match io.map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => Some("the connection was refused"),
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
            Some("the connection was closed")
        }
        Some(io::ErrorKind::TimedOut) => Some("the connection timed out"),
        Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) => {
            Some("there is no route to the server")
        }
        _ if error.is_timeout() => Some("the connection timed out"),
        _ if sources(error).any(|cause| cause.to_string().starts_with("dns error")) => {
            Some("the name of the server could not be resolved")
        }
        _ => None,
    }
}

fn certificate_failure(error: &reqwest::Error) -> Option<String> {
    tls_error(error).map(|error| cleaned(&error.to_string()))
}

/// An error and its causes.
fn sources<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::reply_head::ReplyHead;

    fn error(kind: ErrorKind, message: &str) -> RunError {
        let (message, head) = (message.to_owned(), ReplyHead::default());
        ModelError::Api { status: Some(400), kind, message, paths: Box::default(), head }
            .for_clients()
    }

    #[test]
    fn the_message_of_the_provider_is_one_bounded_line_without_keys() {
        let quoted = "Incorrect API key (key=sk-proj-abc***xyz).\n\0Find\u{7f} yours in task-1.";
        let shown = error(ErrorKind::Authentication, quoted).provider_message.unwrap();
        assert_eq!(shown, "Incorrect API key [key] Find yours in task-1.");
        let long = error(ErrorKind::InvalidRequest, &"ü ".repeat(1000)).provider_message.unwrap();
        assert_eq!(long.chars().count(), MAX_MESSAGE + 1);
        assert_eq!(error(ErrorKind::InvalidRequest, "").provider_message, None);
    }

    #[test]
    fn each_error_names_its_remedy() {
        let message = |kind, text| error(kind, text).message;
        let too_many = "max_tokens: 99999 > 64000, which is the maximum allowed number of output \
                        tokens for claude-haiku-4-5";
        assert_eq!(
            message(ErrorKind::InvalidRequest, too_many),
            format!(
                "the model answered with invalid_request_error: {too_many}; lower max_tokens of the \
                 session"
            )
        );
        let context = "input length and `max_tokens` exceed context limit: 190000 + 64000 > 200000";
        assert!(message(ErrorKind::InvalidRequest, context).ends_with("in a new session"));
        assert!(message(ErrorKind::NotFound, "model: x").contains("check the model"));
        assert_eq!(message(ErrorKind::Other("odd".to_owned()), ""), "the model answered with odd");
    }
}
