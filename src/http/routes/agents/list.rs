//! Lists of agents.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::Uri;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::domain::agent::{AgentName, AgentSource};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::query::Params;
use crate::http::resources::Page;
use crate::http::routes::paging::{Order, page_request, respond};
use crate::http::state::Api;
use crate::service::agents::{self, AgentEntry};

/// An agent in a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct AgentSummary {
    /// `agent`.
    r#type: &'static str,
    /// The name of the agent. Sessions are created from it by this name.
    #[schema(value_type = String)]
    name: AgentName,
    /// The newest version.
    version: i32,
    /// The owner of the agent.
    source: AgentSource,
    /// A description of the agent's purpose for users; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// The time when the version was created; absent unless the tenant owns the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::optional_time")]
    created_at: Option<Timestamp>,
}

impl From<AgentEntry> for AgentSummary {
    fn from(agent: AgentEntry) -> Self {
        let AgentEntry { name, version, source, description, created_at } = agent;
        Self { r#type: "agent", name, version, source, description, created_at }
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ListAgents {
    /// Maximum number of items, 1 to 200.
    limit: Option<i64>,
    /// Returns the page after this agent: the `next_cursor` of the previous page.
    after: Option<String>,
    /// Returns the page before this agent.
    before: Option<String>,
}

/// Lists the agents that sessions can be created from, in the order of their names.
///
/// The list has the tenant's own agents, the operator's and the built-in ones. An agent that is
/// hidden by another of the same name is left out.
#[utoipa::path(
    get, path = "/agents", operation_id = "list_agents", tag = "agents",
    params(ListAgents),
    responses(
        (status = 200, description = "A page of agents.", body = Page<AgentSummary>,
         headers(("link" = String, description = "Links to the `next` and `prev` page (RFC 8288)."))),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_agents(
    State(api): State<Arc<Api>>,
    caller: Caller,
    query: Params<ListAgents>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let Params(ListAgents { limit, after, before }) = query;
    let request = page_request(limit, after, before, Order::Asc)?;
    let page = agents::list_agents(&api.service, caller.tenant, request).await?;
    Ok(respond(page.map(AgentSummary::from), &uri))
}
