//! Why a server gave no result, for the model and for the figures.

use std::error::Error;
use std::time::Duration;

use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::domain::tool_server::ServedCall;
use crate::model::upstream::Verdict;
use crate::tools::ToolError;
use crate::tools::policy::visible;

/// The longest message of a server that is passed on, in bytes.
const MAX_MESSAGE: usize = 2000;
/// The longest text of an error that is logged.
const MAX_LOGGED: usize = 300;

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::tools) enum AskFailure {
    /// There is no connection.
    NotConnected,
    /// It failed too often, and is left alone for so many seconds.
    LeftAlone(u64),
    /// It took longer than it may.
    TimedOut(Duration),
    /// The connection closed, or what came is no answer.
    NoResponse,
    /// It refused the request.
    Refused {
        /// As JSON-RPC counts.
        code: i32,
        /// Its own words, at most 2,000 bytes of them.
        message: String,
    },
    /// It asks for something in return, which nobody gives it.
    Asks,
}

impl AskFailure {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the library may add to them")]
    pub(super) fn of(error: &ServiceError) -> Self {
        match error {
            ServiceError::McpError(error) => {
                let mut message = visible(&error.message).into_owned();
                message.truncate(message.floor_char_boundary(MAX_MESSAGE));
                Self::Refused { code: error.code.0, message }
            }
            ServiceError::TransportSend(error) if is_unreachable(error) => Self::NotConnected,
            ServiceError::InputRequiredRoundsExceeded { .. } => Self::Asks,
            _ => Self::NoResponse,
        }
    }

    /// In the figures.
    pub(super) const fn outcome(&self) -> ServedCall {
        match self {
            Self::NotConnected | Self::LeftAlone(_) => ServedCall::Withheld,
            Self::TimedOut(_) => ServedCall::TimedOut,
            Self::NoResponse => ServedCall::NoResponse,
            Self::Refused { .. } | Self::Asks => ServedCall::Failed,
        }
    }

    /// What it says of the server: nothing if it was not asked. One that refuses is at work.
    pub(super) const fn verdict(&self) -> Option<Verdict> {
        match self {
            Self::Refused { .. } | Self::Asks => Some(Verdict::Well),
            Self::TimedOut(_) | Self::NoResponse => Some(Verdict::Ill),
            Self::NotConnected | Self::LeftAlone(_) => None,
        }
    }

    /// In the words of the model.
    pub(super) fn told(&self, server: &str, tool: &str) -> ToolError {
        match self {
            Self::NotConnected => {
                ToolError::Network(format!("the tool server {server} cannot be reached now"))
            }
            Self::LeftAlone(seconds) => ToolError::Network(format!(
                "the tool server {server} failed too often and is left alone for {seconds} s"
            )),
            Self::TimedOut(after) => {
                ToolError::Timeout(format!("{tool} timed out after {} s", after.as_secs()))
            }
            Self::NoResponse => ToolError::NoResponse(format!(
                "no response received from the tool server {server}; the call may have happened \
                 all the same"
            )),
            Self::Refused { code, message } => {
                ToolError::Failed(format!("MCP error {code}: {message}"))
            }
            Self::Asks => ToolError::Failed(format!(
                "the tool server {server} asks for something in return, which nobody gives it here"
            )),
        }
    }
}

/// Whether nobody took the request: nobody was there, or the session was gone by then.
fn is_unreachable(error: &DynamicTransportError) -> bool {
    match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(error)) => error.is_connect(),
        Some(StreamableHttpError::SessionExpired) => true,
        Some(_) | None => false,
    }
}

/// Why a server did not begin, without the names of the types that the error went through.
pub(super) fn why_not_begun(error: &ClientInitializeError) -> String {
    let ClientInitializeError::TransportError { error, .. } = error else {
        return bounded(&format!("it does not begin as the protocol wants it: {error}"));
    };
    let mut cause: &(dyn Error + 'static) = error.error.as_ref();
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    bounded(&format!("it does not take what it is sent: {cause}"))
}

/// A text of which a server has written a part, as far as it is logged.
pub(super) fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_LOGGED);
    visible(text.get(..end).unwrap_or_default()).into_owned()
}
