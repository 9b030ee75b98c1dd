//! Requests for agents that cannot be served.

use http::StatusCode;

use crate::domain::agent::AgentName;

/// Why an agent cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub(in crate::http) enum AgentError {
    #[error("there is no agent {0}")]
    NotFound(String),
    #[error("{name} is an agent of {whose}, which tenants can neither change nor hide")]
    NameTaken {
        /// The agent.
        name: AgentName,
        /// Who says what it is.
        whose: &'static str,
    },
    #[error("there are {0} agents already, which is the most")]
    TooMany(i64),
    #[error("the agent has {0} versions already, which is the most; delete it to begin anew")]
    TooManyVersions(i32),
}

impl AgentError {
    /// Status and code: the contract.
    pub(in crate::http) const fn status_and_code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "agent_not_found"),
            Self::NameTaken { .. } => (StatusCode::CONFLICT, "agent_name_taken"),
            Self::TooMany(_) => (StatusCode::CONFLICT, "too_many_agents"),
            Self::TooManyVersions(_) => (StatusCode::CONFLICT, "too_many_agent_versions"),
        }
    }
}
