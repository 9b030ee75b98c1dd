//! Agents: named, versioned sets of session settings.

mod delete;
mod list;
mod put;
mod resource;

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;

use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::conditions::{etag, not_modified};
use crate::http::extract::path::AgentPath;
use crate::http::extract::query::Params;
use crate::http::state::Api;
use crate::service::agents::find_agent;
pub(in crate::http) use delete::*;
pub(in crate::http) use list::*;
pub(in crate::http) use put::*;
use resource::{AgentResource, not_found, parse_name};

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct GetAgent {
    /// The version. When absent, the newest.
    #[param(minimum = 1)]
    version: Option<i32>,
}

/// Retrieves an agent.
#[utoipa::path(
    get, path = "/agents/{name}", operation_id = "get_agent", tag = "agents",
    params(
        ("name" = String, Path, description = "The name of the agent."),
        GetAgent,
        ("If-None-Match" = Option<String>, Header,
         description = "An `ETag` of the agent. If it is the current one, the response is 304."),
    ),
    responses(
        (status = 200, description = "The agent.", body = AgentResource,
         headers(("etag" = String, description = "The version of the agent."))),
        (status = 304, description = "The agent has the version that the client knows.",
         headers(("etag" = String, description = "The version of the agent."))),
        (status = 400, description = "`invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`agent_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_agent(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: AgentPath,
    query: Params<GetAgent>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (AgentPath(text), Params(GetAgent { version })) = (path, query);
    let name = parse_name(&text)?;
    let agent = find_agent(&api.service, caller.tenant, &name, version).await?;
    let agent = agent.ok_or_else(|| match version {
        Some(version) => not_found(&format!("{name}@{version}")),
        None => not_found(&text),
    })?;
    if let Some(status) = not_modified(&headers, agent.version.into()) {
        return Ok((status, etag(agent.version.into())).into_response());
    }
    Ok(AgentResource::new(&api, agent)?.respond(StatusCode::OK))
}
