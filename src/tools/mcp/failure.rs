//! Why a server gave no result, for the model and for the figures.

use std::error::Error;
use std::time::Duration;

use rmcp::service::ServiceError;

use crate::domain::tool_server::ServedCall;
use crate::model::upstream::Verdict;
use crate::tools::ToolError;
use crate::tools::policy::visible;

/// The longest message of a server that is passed on, in bytes.
const MAX_MESSAGE: usize = 2000;

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskFailure {
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

/// Whether nobody was there to take the request.
fn is_unreachable(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect) {
            return true;
        }
        next = error.source();
    }
    false
}
