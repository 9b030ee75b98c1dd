//! What differs between the protocols that the simulator speaks.

use serde_json::Value;

use super::chat;
use super::emit::{self, Wire};
use super::message::Message;
use super::refusal::{Refusal, error_body};
use super::script::Failure;

/// A protocol, and what a request says of the form of its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The Messages API.
    Messages,
    /// Chat Completions.
    Chat {
        /// Whether a stream ends with its counts.
        include_usage: bool,
    },
}

impl Protocol {
    /// The header with the id of a request.
    pub(crate) const fn id_header(self) -> &'static str {
        match self {
            Self::Messages => "request-id",
            Self::Chat { .. } => "x-request-id",
        }
    }

    /// The stream of a message, in deltas of `chunk` characters.
    pub(crate) fn stream(self, message: &Message, chunk: usize) -> Wire {
        match self {
            Self::Messages => emit::stream(message, chunk),
            Self::Chat { include_usage } => chat::stream(message, chunk, include_usage),
        }
    }

    /// The body of a reply that is not streamed.
    pub(crate) fn json(self, message: &Message) -> Value {
        match self {
            Self::Messages => message.to_json(),
            Self::Chat { .. } => chat::to_json(message),
        }
    }

    /// The body of an error response.
    pub(crate) fn error(self, failure: &Failure, request_id: &str) -> Value {
        let Failure { kind, message, details } = failure;
        match self {
            Self::Messages => error_body(kind, message, details.as_ref(), request_id),
            Self::Chat { .. } => chat::error_body(kind, message, details.as_ref()),
        }
    }

    /// The body of a refusal.
    pub(crate) fn refusal(self, refusal: &Refusal, request_id: &str) -> Value {
        let Refusal { kind, message, details, .. } = refusal;
        match self {
            Self::Messages => error_body(kind, message, details.as_ref(), request_id),
            Self::Chat { .. } => chat::error_body(kind, message, details.as_ref()),
        }
    }

    /// Breaks a stream off with an error.
    pub(crate) fn break_off(self, wire: &mut Wire, failure: &Failure, request_id: &str) {
        let error = self.error(failure, request_id);
        match self {
            Self::Messages => wire.event("error", &error),
            Self::Chat { .. } => wire.data(&error),
        }
    }
}
