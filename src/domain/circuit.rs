//! The state of a circuit breaker.

use serde::Serialize;

/// The state of the circuit breaker in front of a server that the service depends on, from the best
/// to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Circuit {
    /// Requests are sent.
    Closed,
    /// One probe request is in progress; the others wait.
    HalfOpen,
    /// Too many requests failed in a row; no request is sent for a while.
    Open,
}
