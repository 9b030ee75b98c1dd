//! The differences between the protocols of the simulator.

use serde_json::Value;

use super::emit::{self, Wire};
use super::message::Message;
use super::refusal::{GATEWAY, Refusal, error_body};
use super::script::Failure;
use super::{chat, responses};

/// A protocol, with the request's options for the form of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The Messages API.
    Messages,
    /// Chat Completions.
    Chat {
        /// End a stream with its token counts.
        include_usage: bool,
    },
    /// Responses.
    Responses,
}

impl Protocol {
    /// The name of the header with the request's id.
    pub(crate) const fn id_header(self) -> &'static str {
        match self {
            Self::Messages => "request-id",
            Self::Chat { .. } | Self::Responses => "x-request-id",
        }
    }

    /// The stream of a message, in deltas of `chunk` characters.
    pub(crate) fn stream(self, message: &Message, chunk: usize) -> Wire {
        match self {
            Self::Messages => emit::stream(message, chunk),
            Self::Chat { include_usage } => chat::stream(message, chunk, include_usage),
            Self::Responses => responses::stream(message, chunk),
        }
    }

    /// The body of a reply without streaming.
    pub(crate) fn json(self, message: &Message) -> Value {
        match self {
            Self::Messages => message.to_json(),
            Self::Chat { .. } => chat::to_json(message),
            Self::Responses => responses::to_json(message),
        }
    }

    /// The body of an error response.
    pub(crate) fn error(self, failure: &Failure, request_id: &str) -> Value {
        let Failure { kind, message, details } = failure;
        match self {
            Self::Messages => error_body(kind, message, details.as_ref(), request_id),
            Self::Chat { .. } | Self::Responses => {
                chat::error_body(kind, message, details.as_ref())
            }
        }
    }

    /// The body of a refusal.
    pub(crate) fn refusal(self, refusal: &Refusal, request_id: &str) -> Value {
        let Refusal { kind, message, details, .. } = refusal;
        if let (&GATEWAY, Some(body)) = (kind, details) {
            return body.clone();
        }
        match self {
            Self::Messages => error_body(kind, message, details.as_ref(), request_id),
            Self::Chat { .. } | Self::Responses => {
                chat::error_body(kind, message, details.as_ref())
            }
        }
    }

    /// Ends a stream with an error.
    pub(crate) fn break_off(self, wire: &mut Wire, failure: &Failure, request_id: &str) {
        let error = self.error(failure, request_id);
        match self {
            Self::Messages => wire.event("error", &error),
            Self::Chat { .. } => wire.data(&error),
            Self::Responses => wire.event("error", &responses::error_event(&error)),
        }
    }
}
