//! The formats of error responses: problem documents, or the format of another protocol.

use http::StatusCode;

/// The beginning of the paths of Claude Managed Agents.
const MANAGED_AGENTS: &str = "/anthropic/";
/// The beginning of the paths of OpenAI's protocol.
const OPENAI: &str = "/openai/v1/";

/// The format of the errors of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum ErrorFormat {
    /// Problem documents (RFC 9457).
    Problem,
    /// The envelope of Claude Managed Agents.
    ManagedAgents,
    /// The errors of OpenAI's protocol.
    OpenAi,
}

impl ErrorFormat {
    /// The format of the errors of this path, whether it has a route or not.
    pub(in crate::http) fn of(path: &str) -> Self {
        match path {
            path if path.starts_with(MANAGED_AGENTS) => Self::ManagedAgents,
            path if path.starts_with(OPENAI) => Self::OpenAi,
            _ => Self::Problem,
        }
    }

    /// The header with the id of the request that clients of this format read.
    pub(in crate::http) const fn request_id_header(self) -> Option<&'static str> {
        match self {
            Self::Problem | Self::OpenAi => None,
            Self::ManagedAgents => Some("request-id"),
        }
    }

    /// The status of an error. The other protocol refuses invalid bodies with 400.
    pub(super) fn status(self, status: StatusCode) -> StatusCode {
        match self {
            Self::ManagedAgents if status == StatusCode::UNPROCESSABLE_ENTITY => {
                StatusCode::BAD_REQUEST
            }
            Self::Problem | Self::ManagedAgents | Self::OpenAi => status,
        }
    }

    pub(super) const fn media_type(self) -> &'static str {
        match self {
            Self::Problem => "application/problem+json",
            Self::ManagedAgents | Self::OpenAi => "application/json",
        }
    }
}
