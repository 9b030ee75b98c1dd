//! Agents: named, versioned sets of session settings.

mod agent;
mod delete;
mod list;
mod profile;
mod put;
mod resolve;
mod shared;
pub(super) mod shared_agent;
#[cfg(test)]
mod tests;

pub(crate) use agent::{Agent, AvailableProfile, is_available, name_taken};
pub(crate) use delete::{DeleteAgent, delete_agent};
pub(crate) use list::{AgentEntry, list_agents};
pub(crate) use profile::AgentProfile;
pub(crate) use put::{PutAgent, PutOutcome, put_agent};
pub use resolve::check_operator_agents;
pub(crate) use resolve::find_agent;
pub(super) use resolve::resolve_session;
pub use shared::BadAgentFile;
pub use shared_agent::OperatorAgents;
