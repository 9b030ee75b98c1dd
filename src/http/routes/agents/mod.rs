//! Agents: named sets of what sessions are made with.

mod deleting;
mod listing;
mod ours;
mod profile;
mod putting;
mod resolve;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::version as etag;
use crate::domain::agent::{AgentName, AgentSource};
use crate::http::auth::Caller;
use crate::http::error::AgentError;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::conditions::not_modified;
use crate::http::extract::path::AgentPath;
use crate::http::extract::query::Params;
use crate::http::state::Api;
pub(in crate::http) use deleting::*;
pub(in crate::http) use listing::*;
pub use ours::{BadAgentFile, OperatorAgents};
pub(in crate::http) use profile::AgentProfile;
pub(in crate::http) use putting::*;
pub(in crate::http) use resolve::check_operators;
pub(super) use resolve::resolve;
use resolve::{Found, find};

/// A version of an agent.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct AgentResource {
    /// `agent`.
    r#type: &'static str,
    /// The name, by which sessions are made as it.
    #[schema(value_type = String)]
    name: AgentName,
    /// The version, from 1.
    version: i32,
    /// Who says what it is.
    source: AgentSource,
    /// What it is for; absent if nobody says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// What sessions are made with, as far as their own requests do not say it. A tenant's is given
    /// with `PUT` in this form.
    #[schema(value_type = AgentProfile)]
    profile: Box<RawValue>,
    /// Tools of its profile that this service does not have, and its sessions go without. Only an
    /// agent of the service itself has any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools_left_out: Vec<String>,
    /// When the version was made; absent where it is not a tenant's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    created_at: Option<Timestamp>,
}

impl AgentResource {
    fn new(api: &Api, name: AgentName, found: Found) -> Result<Self, ApiError> {
        let (read, tools_left_out) = found.read_here(api)?;
        let Found { source, version, profile, created_at } = found;
        let (r#type, description) = ("agent", read.description);
        Ok(Self { r#type, name, version, source, description, profile, tools_left_out, created_at })
    }

    fn respond(self, status: StatusCode) -> Response {
        (status, etag(self.version.into()), Json(self)).into_response()
    }
}

fn unknown(name: &str) -> ApiError {
    AgentError::NotFound(name.to_owned()).into()
}

/// An agent of the operator or of the service, in the way of what a tenant wants to do.
fn taken(name: &AgentName, source: AgentSource) -> ApiError {
    let whose = match source {
        AgentSource::Tenant => "the tenant",
        AgentSource::Operator => "the operator",
        AgentSource::Builtin => "the service itself",
    };
    AgentError::NameTaken { name: name.clone(), whose }.into()
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct GetAgent {
    /// The version; the newest when absent.
    #[param(minimum = 1)]
    version: Option<i32>,
}

/// Reads an agent, as it is or as it was.
#[utoipa::path(
    get, path = "/agents/{name}", operation_id = "get_agent", tag = "agents",
    params(
        ("name" = String, Path, description = "The agent."),
        GetAgent,
        ("If-None-Match" = Option<String>, Header,
         description = "An `ETag` of the agent: 304 if that is the version."),
    ),
    responses(
        (status = 200, description = "The agent.", body = AgentResource,
         headers(("etag" = String, description = "Its version."))),
        (status = 304, description = "It is as the client knows it.",
         headers(("etag" = String, description = "Its version."))),
        (status = 400, description = "`invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`agent_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_agent(
    State(api): State<Api>,
    caller: Caller,
    path: AgentPath,
    query: Params<GetAgent>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (AgentPath(text), Params(GetAgent { version })) = (path, query);
    let name: AgentName = text.parse().map_err(|_| unknown(&text))?;
    let found = find(&api, caller.tenant, &name, version).await?;
    let found = found.ok_or_else(|| match version {
        Some(version) => unknown(&format!("{name}@{version}")),
        None => unknown(&text),
    })?;
    if let Some(status) = not_modified(&headers, found.version.into()) {
        return Ok((status, etag(found.version.into())).into_response());
    }
    Ok(AgentResource::new(&api, name, found)?.respond(StatusCode::OK))
}

#[cfg(test)]
mod tests;
