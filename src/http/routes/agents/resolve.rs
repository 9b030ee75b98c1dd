//! Sessions that are made as an agent.

use jiff::Timestamp;
use serde_json::value::RawValue;

use super::super::client_tool::SessionTool;
use super::super::sessions::CreateSession;
use super::ours::{BadAgentFile, OurAgent, find as find_ours, problem};
use super::profile::AgentProfile;
use crate::domain::agent::{AgentName, AgentSource, AgentVersion};
use crate::domain::ids::TenantId;
use crate::http::error::ApiError;
use crate::http::inherited_fields::InheritedFields;
use crate::http::server::deadline::in_time;
use crate::http::state::Api;
use crate::store::agents::{self, Stored};

/// A version of an agent, whoever says what it is.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) source: AgentSource,
    pub(super) version: i32,
    pub(super) profile: Box<RawValue>,
    /// None of what is in files.
    pub(super) created_at: Option<Timestamp>,
}

impl From<Stored> for Found {
    fn from(stored: Stored) -> Self {
        let Stored { version, profile, created_at } = stored;
        let (source, created_at) = (AgentSource::Tenant, Some(created_at));
        Self { source, version, profile, created_at }
    }
}

impl From<&OurAgent> for Found {
    fn from(agent: &OurAgent) -> Self {
        let OurAgent { source, version, ref profile, .. } = *agent;
        Self { source, version, profile: profile.clone(), created_at: None }
    }
}

impl Found {
    pub(super) fn read(&self) -> Result<AgentProfile, ApiError> {
        serde_json::from_str(self.profile.get())
            .map_err(|error| ApiError::Internal(format!("a profile cannot be read: {error}")))
    }

    /// What it says of sessions here, and the names of those of its tools that they go without.
    ///
    /// The service's own agents are for services of every kind, and name what they could use;
    /// whoever else names a tool relies on it.
    pub(super) fn read_here(&self, api: &Api) -> Result<(AgentProfile, Vec<String>), ApiError> {
        let mut profile = self.read()?;
        let mut left_out = Vec::new();
        if let (AgentSource::Builtin, Some(tools)) = (self.source, &mut profile.tools) {
            tools.retain(|tool| match tool {
                SessionTool::Name(name) if !is_offered(api, name) => {
                    left_out.push(name.clone());
                    false
                }
                SessionTool::Name(_) | SessionTool::Server(_) | SessionTool::Client(_) => true,
            });
        }
        Ok((profile, left_out))
    }
}

/// Whether sessions may have a tool of this name, on whichever side it runs.
fn is_offered(api: &Api, name: &str) -> bool {
    let servers = &api.defaults.model_rules.server_tools;
    servers.iter().any(|tool| tool.name() == name) || api.tools.has(name)
}

/// Finds a version of an agent; the newest, if none is named. A tenant's own hides all others of its
/// name, whatever versions they have.
pub(super) async fn find(
    api: &Api,
    tenant: TenantId,
    name: &AgentName,
    version: Option<i32>,
) -> Result<Option<Found>, ApiError> {
    let own = async {
        let mut conn = api.pool.acquire_as(tenant).await?;
        let mut own = agents::find(&mut conn, tenant, name, version).await?.map(Some);
        if own.is_none() && agents::find(&mut conn, tenant, name, None).await?.is_some() {
            own = Some(None);
        }
        conn.give_back();
        Ok(own)
    };
    match in_time(own).await? {
        Some(own) => Ok(own.map(Into::into)),
        None => Ok(find_ours(&api.defaults.agents, name)
            .filter(|agent| version.is_none_or(|version| version == agent.version))
            .map(Into::into)),
    }
}

/// What a session has of its agent.
#[derive(Debug)]
pub(in crate::http::routes) struct Origin {
    pub(in crate::http::routes) agent: AgentVersion,
    taken: InheritedFields,
}

impl Origin {
    /// Says of what is wrong with a session what the agent has asked for.
    pub(in crate::http::routes) fn blame(&self, error: ApiError) -> ApiError {
        let ApiError::Validation(mut errors) = error else { return error };
        for error in errors.iter_mut().filter(|error| self.taken.has(&error.pointer)) {
            error.message = format!("is {}, whose {} {}", self.agent, error.pointer, error.message);
            "/agent".clone_into(&mut error.pointer);
        }
        ApiError::Validation(errors)
    }
}

/// A session with all that its agent says of it, if it is to be one.
pub(in crate::http::routes) async fn resolve(
    api: &Api,
    tenant: TenantId,
    mut session: CreateSession,
) -> Result<(CreateSession, Option<Origin>), ApiError> {
    let Some(choice) = session.agent.take() else { return Ok((session, None)) };
    let found = find(api, tenant, &choice.name, choice.version).await?;
    let found = found.ok_or_else(|| {
        ApiError::field("/agent", format!("is {choice}, and there is no such agent"))
    })?;
    let (profile, _) = found.read_here(api)?;
    let taken = profile.fill(&mut session);
    let agent = AgentVersion { name: choice.name, version: found.version };
    Ok((session, Some(Origin { agent, taken })))
}

/// Refuses a profile of which no session could be made.
pub(super) async fn check(api: &Api, profile: AgentProfile) -> Result<(), ApiError> {
    let mut session = CreateSession::default();
    profile.fill(&mut session);
    Box::pin(session.make_alone(api)).await.map(drop)
}

/// Checks the operator's agents as sessions are checked that are made as one, but for tools of
/// servers that are away: these may come.
pub(in crate::http) async fn check_operators(api: &Api) -> Result<(), BadAgentFile> {
    for (name, agent) in api.defaults.agents.iter() {
        let checked = async {
            let mut profile = Found::from(agent).read()?;
            if let Some(tools) = &mut profile.tools {
                tools.retain(|tool| match tool {
                    SessionTool::Name(name) => api.tools.absent(name).is_none(),
                    SessionTool::Server(_) | SessionTool::Client(_) => true,
                });
            }
            check(api, profile).await
        };
        checked.await.map_err(|error| BadAgentFile::Content {
            file: format!("{name}.json"),
            problem: problem(error),
        })?;
    }
    Ok(())
}
