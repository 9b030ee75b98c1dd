//! The health of one model.

use tokio::sync::Semaphore;

use super::breaker::Breaker;
use super::budget::RetryBudget;

/// The shared state of one model of a server.
#[derive(Debug)]
pub struct ModelHealth {
    /// Decides whether requests are sent at all.
    pub breaker: Breaker,
    /// Limits retries.
    pub budget: RetryBudget,
    /// The turn to probe, which waiting requests get in the order of their arrival.
    pub(super) turn: Semaphore,
}

impl Default for ModelHealth {
    fn default() -> Self {
        Self {
            breaker: Breaker::default(),
            budget: RetryBudget::default(),
            turn: Semaphore::new(1),
        }
    }
}
