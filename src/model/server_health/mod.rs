//! The health of a model server, shared by all runs of this process.
//!
//! Retries of many runs at once would overload a failing server further. So all retries share one
//! budget, and a circuit breaker stops requests to a server that fails them all, until a probe
//! succeeds.

mod breaker;
mod budget;

pub use breaker::{Breaker, BreakerConfig, Health, Pass};
pub use budget::RetryBudget;

/// The shared state of a model server.
#[derive(Debug, Default)]
pub struct ServerHealth {
    /// Decides whether requests are sent at all.
    pub breaker: Breaker,
    /// Limits retries.
    pub budget: RetryBudget,
}
