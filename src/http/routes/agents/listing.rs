//! The list of agents: those of the tenant, of the operator and of the service, by their names.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Response;
use http::Uri;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::super::paging::{Asked, Order};
use super::ours;
use crate::domain::agent::{AgentName, AgentSource};
use crate::domain::page::Slice;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::query::Params;
use crate::http::resources::Page;
use crate::http::state::Api;
use crate::store::agents::{Summary, list};

/// An agent as lists show it.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct AgentSummary {
    /// `agent`.
    r#type: &'static str,
    /// The name, by which sessions are made as it.
    #[schema(value_type = String)]
    name: AgentName,
    /// The newest version.
    version: i32,
    /// Who says what it is.
    source: AgentSource,
    /// What it is for; absent if nobody says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// When the version was made; absent where it is not a tenant's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    created_at: Option<Timestamp>,
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ListAgents {
    /// Items of the page, 1 to 200.
    limit: Option<i64>,
    /// The page behind this agent; the `next_cursor` of the page before.
    after: Option<String>,
    /// The page before this agent.
    before: Option<String>,
}

/// Lists the agents that sessions may be made as, in the order of their names.
///
/// These are the caller's own, the operator's and those of the service itself. One that is hidden by
/// another of its name is left out.
#[utoipa::path(
    get, path = "/agents", operation_id = "list_agents", tag = "agents",
    params(ListAgents),
    responses(
        (status = 200, description = "A page of agents.", body = Page<AgentSummary>,
         headers(("link" = String, description = "Its neighbours: `next` and `prev` (RFC 8288)."))),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_agents(
    State(api): State<Api>,
    caller: Caller,
    query: Params<ListAgents>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let Params(ListAgents { limit, after, before }) = query;
    let asked = Asked::read(limit, after, before, Order::Asc)?;
    let mut conn = api.pool.acquire_as(caller.tenant).await?;
    let own = list(&mut conn, caller.tenant).await?;
    conn.give_back();
    let all = merged(&api, own);
    let mut page = asked.page(read(&all, &asked.slice()), |agent| agent.name.clone());
    if let Some(back) = page.back() {
        page.goes_back(!read(&all, &back).is_empty());
    }
    Ok(page.respond(&uri))
}

/// All agents that a tenant with these of its own has. They are few enough to be put together anew
/// for each page.
fn merged(api: &Api, own: Vec<Summary>) -> BTreeMap<AgentName, AgentSummary> {
    let mut all = BTreeMap::new();
    for (name, agent) in ours::all(&api.defaults.agents) {
        let ours::OurAgent { source, version, ref description, .. } = *agent;
        let (name, description) = (name.clone(), description.clone());
        let summary = AgentSummary {
            r#type: "agent",
            name: name.clone(),
            version,
            source,
            description,
            created_at: None,
        };
        all.insert(name, summary);
    }
    for Summary { name, version, description, updated_at } in own {
        let summary = AgentSummary {
            r#type: "agent",
            name: name.clone(),
            version,
            source: AgentSource::Tenant,
            description,
            created_at: Some(updated_at),
        };
        all.insert(name, summary);
    }
    all
}

/// Reads a part of them as one of a table is read.
fn read(all: &BTreeMap<AgentName, AgentSummary>, slice: &Slice<AgentName>) -> Vec<AgentSummary> {
    let limit = usize::try_from(slice.limit).unwrap_or(0);
    let is_behind = |name: &AgentName| match &slice.from {
        Some(from) if slice.is_upwards => name > from,
        Some(from) => name < from,
        None => true,
    };
    let found = all.iter().filter(|(name, _)| is_behind(name)).map(|(_, agent)| agent.clone());
    if slice.is_upwards {
        return found.take(limit).collect();
    }
    slice.in_order(found.rev().take(limit).collect())
}
