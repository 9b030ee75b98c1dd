//! A version of an agent, from the database or from a file.

use jiff::Timestamp;
use serde_json::value::RawValue;

use super::profile::AgentProfile;
use super::shared_agent::SharedAgent;
use crate::domain::agent::{AgentName, AgentSource};
use crate::service::agent_error::AgentError;
use crate::service::client_tool::SessionTool;
use crate::service::error::Error;
use crate::service::state::Service;
use crate::store::agents::StoredAgent;

/// A version of an agent.
#[derive(Debug)]
pub(crate) struct Agent {
    /// The name.
    pub(crate) name: AgentName,
    /// The owner of the agent.
    pub(crate) source: AgentSource,
    /// The version, from 1.
    pub(crate) version: i32,
    /// The profile as it is stored.
    pub(crate) profile: Box<RawValue>,
    /// The time when the version was created; none for an agent from a file.
    pub(crate) created_at: Option<Timestamp>,
}

/// A profile as sessions of this service use it.
pub(crate) struct AvailableProfile {
    /// The profile, without tools that the service does not have.
    pub(crate) profile: AgentProfile,
    /// The names of these tools.
    pub(crate) tools_left_out: Vec<String>,
}

impl Agent {
    pub(super) fn stored(name: AgentName, stored: StoredAgent) -> Self {
        let StoredAgent { version, profile, created_at } = stored;
        let (source, created_at) = (AgentSource::Tenant, Some(created_at));
        Self { name, source, version, profile, created_at }
    }

    pub(super) fn shared(name: AgentName, agent: &SharedAgent) -> Self {
        let SharedAgent { source, version, ref profile, .. } = *agent;
        Self { name, source, version, profile: profile.clone(), created_at: None }
    }

    pub(super) fn read_profile(&self) -> Result<AgentProfile, Error> {
        serde_json::from_str(self.profile.get())
            .map_err(|error| Error::Internal(format!("a profile cannot be parsed: {error}")))
    }

    /// Parses the profile. Tools that the service does not have are removed from a built-in agent,
    /// which names the tools of every kind of service. Other agents rely on the tools they name.
    pub(crate) fn available_profile(&self, service: &Service) -> Result<AvailableProfile, Error> {
        let mut profile = self.read_profile()?;
        let mut tools_left_out = Vec::new();
        if let (AgentSource::Builtin, Some(tools)) = (self.source, &mut profile.tools) {
            tools.retain(|tool| match tool {
                SessionTool::Name(name) if !is_available(service, name) => {
                    tools_left_out.push(name.clone());
                    false
                }
                SessionTool::Name(_)
                | SessionTool::Described(_)
                | SessionTool::Server(_)
                | SessionTool::Client(_) => true,
            });
        }
        Ok(AvailableProfile { profile, tools_left_out })
    }
}

/// Returns true if sessions may have a tool of this name, executed here or by the model's API.
pub(crate) fn is_available(service: &Service, name: &str) -> bool {
    let server_tools = &service.defaults.model_rules.server_tools;
    server_tools.iter().any(|tool| tool.name() == name) || service.tools.has(name)
}

/// The refusal to change an agent that all tenants share.
pub(crate) fn name_taken(name: &AgentName, source: AgentSource) -> Error {
    let owner = match source {
        AgentSource::Tenant => "the tenant",
        AgentSource::Operator => "the operator",
        AgentSource::Builtin => "the service itself",
    };
    AgentError::NameTaken { name: name.clone(), owner }.into()
}
