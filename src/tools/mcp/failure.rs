//! Failures of calls to MCP servers, as error texts for the model and as metrics labels.

use std::error::Error;
use std::time::Duration;

use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::domain::tool_server::ServedCall;
use crate::model::server_health::Health;
use crate::tools::error::ToolError;
use crate::tools::policy::visible;

/// Maximum length of a server's message in an error text, in bytes.
const MAX_MESSAGE: usize = 2000;
/// Maximum length of a logged error, in bytes.
const MAX_LOGGED: usize = 300;

/// The cause of a failed request to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::tools) enum ServerCallFailure {
    /// The server is not connected.
    NotConnected,
    /// The circuit breaker is open for this number of seconds.
    CircuitOpen(u64),
    /// The timeout of this length has passed.
    TimedOut(Duration),
    /// The connection closed, or the response was not valid.
    NoResponse,
    /// The server answered with an error.
    Refused {
        /// The JSON-RPC error code.
        code: i32,
        /// The server's message, truncated to 2,000 bytes.
        message: String,
    },
    /// The server requires further input from the client, which this client does not support.
    InputRequired,
}

impl ServerCallFailure {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the library may add to them")]
    pub(super) fn of(error: &ServiceError) -> Self {
        match error {
            ServiceError::McpError(error) => {
                let mut message = visible(&error.message).into_owned();
                message.truncate(message.floor_char_boundary(MAX_MESSAGE));
                Self::Refused { code: error.code.0, message }
            }
            ServiceError::TransportSend(error) if is_unreachable(error) => Self::NotConnected,
            ServiceError::InputRequiredRoundsExceeded { .. } => Self::InputRequired,
            _ => Self::NoResponse,
        }
    }

    /// Returns the outcome for metrics.
    pub(super) const fn outcome(&self) -> ServedCall {
        match self {
            Self::NotConnected | Self::CircuitOpen(_) => ServedCall::Withheld,
            Self::TimedOut(_) => ServedCall::TimedOut,
            Self::NoResponse => ServedCall::NoResponse,
            Self::Refused { .. } | Self::InputRequired => ServedCall::Failed,
        }
    }

    /// Returns the health of the server that the failure shows, or `None` if no request was
    /// sent. A server that refuses a request is healthy.
    pub(super) const fn health(&self) -> Option<Health> {
        match self {
            Self::Refused { .. } | Self::InputRequired => Some(Health::Healthy),
            Self::TimedOut(_) | Self::NoResponse => Some(Health::Unhealthy),
            Self::NotConnected | Self::CircuitOpen(_) => None,
        }
    }

    /// Converts the failure into the error text that the model receives.
    pub(super) fn to_tool_error(&self, server: &str, tool: &str) -> ToolError {
        match self {
            Self::NotConnected => {
                ToolError::Network(format!("the tool server {server} is unreachable"))
            }
            Self::CircuitOpen(seconds) => ToolError::Network(format!(
                "the tool server {server} failed too often and gets no calls for {seconds} s"
            )),
            Self::TimedOut(after) => {
                ToolError::Timeout(format!("{tool} timed out after {} s", after.as_secs()))
            }
            Self::NoResponse => ToolError::NoResponse(format!(
                "no response received from the tool server {server}; the call may have been \
                 executed"
            )),
            Self::Refused { code, message } => {
                ToolError::Failed(format!("MCP error {code}: {message}"))
            }
            Self::InputRequired => ToolError::Failed(format!(
                "the tool server {server} requests input from the client, which is not supported"
            )),
        }
    }
}

/// Returns `true` if the server did not receive the request: the connection failed or the session
/// had expired.
fn is_unreachable(error: &DynamicTransportError) -> bool {
    match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(error)) => error.is_connect(),
        Some(StreamableHttpError::SessionExpired) => true,
        Some(_) | None => false,
    }
}

/// Returns the innermost cause of a failed handshake, without the type names of the outer errors.
pub(super) fn why_not_begun(error: &ClientInitializeError) -> String {
    let ClientInitializeError::TransportError { error, .. } = error else {
        return bounded(&format!("its handshake is not valid: {error}"));
    };
    let mut cause: &(dyn Error + 'static) = error.error.as_ref();
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    bounded(&format!("it does not accept messages: {cause}"))
}

/// Truncates a text from a server for the log and escapes its invisible characters.
pub(super) fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_LOGGED);
    visible(text.get(..end).unwrap_or_default()).into_owned()
}
