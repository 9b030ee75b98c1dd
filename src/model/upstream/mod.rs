//! How a server of models is doing, as all runs of this process see it together.
//!
//! A run by itself is patient. Many patient runs are a storm, so retries come out of one budget,
//! and a server that fails everybody is left alone until one request finds it well.

mod breaker;
mod budget;

pub use breaker::{Breaker, Endurance, Pass, Verdict};
pub use budget::RetryBudget;

/// What is known of a server.
#[derive(Debug, Default)]
pub struct Upstream {
    /// Whether it is asked at all.
    pub breaker: Breaker,
    /// How often it is asked again.
    pub budget: RetryBudget,
}
