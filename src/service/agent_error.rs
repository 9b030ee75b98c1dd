//! Requests for agents that cannot be served.

use crate::domain::agent::AgentName;

/// The reason why an agent cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The tenant has no agent of this name.
    #[error("there is no agent {0}")]
    NotFound(String),
    /// The name belongs to an agent that tenants cannot change.
    #[error("{name} is an agent of {owner}, which tenants can neither change nor hide")]
    NameTaken {
        /// The agent.
        name: AgentName,
        /// Its owner.
        owner: &'static str,
    },
    /// The tenant has the maximum number of agents.
    #[error("there are {0} agents already; at most {0} are allowed")]
    TooMany(i64),
    /// The agent has the maximum number of versions.
    #[error("the agent has {0} versions already; at most {0} are allowed: delete it to start over")]
    TooManyVersions(i32),
}
