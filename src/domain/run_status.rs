//! The status of a run.

use serde::{Deserialize, Serialize};

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Accepted; waits for a worker, or for an earlier run of the session.
    Queued,
    /// A worker holds its lease.
    Running,
    /// Waits for the client to answer calls.
    RequiresAction,
    /// The model finished its answer.
    Completed,
    /// The service could not finish it.
    Failed,
    /// The client cancelled it.
    Cancelled,
}

impl RunStatus {
    /// The status as text, on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::RequiresAction => "requires_action",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Parses the text that the database stores.
    pub fn parse(text: &str) -> Option<Self> {
        [
            Self::Queued,
            Self::Running,
            Self::RequiresAction,
            Self::Completed,
            Self::Failed,
            Self::Cancelled,
        ]
        .into_iter()
        .find(|status| status.as_str() == text)
    }

    /// Returns `true` for a state that never changes again.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}
