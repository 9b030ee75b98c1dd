//! The health of the models of a server, shared by all runs of this process.
//!
//! Retries of many runs at once would overload a failing server further. So all retries of requests
//! to a model share one budget, and a circuit breaker stops requests to a model that fails them all,
//! until a probe succeeds. Each model has a breaker and a budget of its own: one model that fails
//! does not delay runs with other models. A provider has one base URL and key, so the provider and the
//! name of the model identify what fails.

mod admission;
mod breaker;
mod budget;
mod model_health;
mod models;

pub use admission::{Admission, NotYet};
pub use breaker::{Breaker, BreakerConfig, Health, Pass};
pub use budget::RetryBudget;
pub use model_health::ModelHealth;
pub use models::ServerHealth;
