//! Creating a session from an agent: finding the agent, and filling the request from its profile.

use super::agent::{Agent, AvailableProfile};
use super::profile::AgentProfile;
use super::shared::{self, BadAgentFile, describe_problem};
use super::shared_agent::OperatorAgents;
use crate::domain::agent::{AgentName, AgentVersion};
use crate::domain::ids::TenantId;
use crate::service::client_tool::SessionTool;
use crate::service::deadline::in_time;
use crate::service::error::Error;
use crate::service::inherited_fields::InheritedFields;
use crate::service::session_settings::{CreateSession, NewSettings};
use crate::service::state::Service;
use crate::store::agents;

/// Finds a version of an agent; the newest if none is named. An agent of the tenant hides a shared
/// one of the same name, whatever versions either has.
pub(crate) async fn find_agent(
    service: &Service,
    tenant: TenantId,
    name: &AgentName,
    version: Option<i32>,
) -> Result<Option<Agent>, Error> {
    let own = service.pool.with(tenant, async |conn| {
        let found = agents::find(conn, tenant, name, version).await?;
        let has_own = found.is_some() || agents::find(conn, tenant, name, None).await?.is_some();
        Ok::<_, Error>(has_own.then_some(found))
    });
    match in_time(own).await? {
        Some(own) => Ok(own.map(|stored| Agent::stored(name.clone(), stored))),
        None => Ok(shared::find(&service.defaults.agents.current(), name)
            .filter(|agent| version.is_none_or(|version| version == agent.version))
            .map(|agent| Agent::shared(name.clone(), agent))),
    }
}

/// Builds the settings of a session, with those of its agent where the request has none.
pub(in crate::service) async fn resolve_session(
    service: &Service,
    tenant: TenantId,
    mut request: CreateSession,
) -> Result<NewSettings, Error> {
    let Some(choice) = request.agent.take() else {
        return NewSettings::build(service, request).await;
    };
    let agent = find_agent(service, tenant, &choice.name, choice.version).await?;
    let agent = agent.ok_or_else(|| {
        Error::field("/agent", format!("is {choice}, but there is no such agent"))
    })?;
    let AvailableProfile { profile, .. } = agent.available_profile(service)?;
    let inherited = profile.fill(&mut request);
    let version = AgentVersion { name: choice.name, version: agent.version };
    let mut new = NewSettings::build(service, request)
        .await
        .map_err(|error| attribute(error, &version, &inherited))?;
    new.settings.agent = Some(Box::new(version));
    Ok(new)
}

/// Reports problems with inherited members as problems with the agent.
fn attribute(error: Error, agent: &AgentVersion, inherited: &InheritedFields) -> Error {
    let Error::Validation(mut errors) = error else { return error };
    for error in errors.iter_mut().filter(|error| inherited.has(&error.pointer)) {
        error.message = format!("is {agent}, whose {} {}", error.pointer, error.message);
        "/agent".clone_into(&mut error.pointer);
    }
    Error::Validation(errors)
}

/// Refuses a profile from which no session could be created.
pub(super) async fn check_profile(service: &Service, profile: AgentProfile) -> Result<(), Error> {
    let mut request = CreateSession::default();
    profile.fill(&mut request);
    Box::pin(NewSettings::build(service, request)).await.map(drop)
}

/// Checks that sessions can be created from these agents of the operator. Tools of tool servers that
/// are unreachable at the moment are not checked: the servers may become available later.
pub async fn check_operator_agents(
    service: &Service,
    agents: &OperatorAgents,
) -> Result<(), BadAgentFile> {
    for (name, agent) in agents.iter() {
        let checked = async {
            let mut profile = Agent::shared(name.clone(), agent).read_profile()?;
            if let Some(tools) = &mut profile.tools {
                tools.retain(|tool| match tool {
                    SessionTool::Name(name) => service.tools.unavailable_reason(name).is_none(),
                    SessionTool::Described(_) | SessionTool::Server(_) | SessionTool::Client(_) => {
                        true
                    }
                });
            }
            check_profile(service, profile).await
        };
        checked.await.map_err(|error| BadAgentFile::Content {
            file: format!("{name}.json"),
            problem: describe_problem(error),
        })?;
    }
    Ok(())
}
