//! Whether a server that we depend on is asked.

use serde::Serialize;

/// Whether a server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Circuit {
    /// It is.
    Closed,
    /// One request is on its way to find out; the others wait.
    HalfOpen,
    /// It failed too often in a row, and is left alone for a while.
    Open,
}
