//! Creating, changing and reading agents.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::agent::{ManagedAgent, existing_agent};
use super::agent_body::ManagedAgentBody;
use super::paging::{ManagedAgentsPage, page_request};
use super::query::SdkQuery;
use crate::domain::agent::{AgentName, AgentSource};
use crate::domain::ids::TenantId;
use crate::domain::rfc3339;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::json_body::JsonBody;
use crate::http::extract::path::SdkPath;
use crate::http::state::Api;
use crate::service::Error;
use crate::service::agents::{
    DeleteAgent, PutAgent, PutOutcome, delete_agent, list_agents, name_taken, put_agent,
};
use crate::service::json::parse;

/// Maximum length of the part of an id that is derived from the name of the agent.
const MAX_SLUG: usize = 40;

/// Creates an agent.
///
/// Its `id` is its name in the API of the service: derived from `name`, with a random end.
#[utoipa::path(
    post, path = "/anthropic/v1/agents", operation_id = "create_managed_agent", tag = "managed_agents",
    params(("beta" = Option<serde_json::Value>, Query, description = "Has no effect.")),
    request_body = ManagedAgentBody,
    responses(
        (status = 200, description = "The agent.", body = ManagedAgent),
        (status = 400, description = "`validation_failed`, `bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`too_many_agents`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "`quota_exceeded`, `rate_limited`", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_managed_agent(
    State(api): State<Arc<Api>>,
    caller: Caller,
    body: JsonBody<ManagedAgentBody>,
) -> Result<Json<ManagedAgent>, ApiError> {
    let JsonBody(body) = body;
    let name = new_name(body.required_name()?)?;
    let mut profile = Map::new();
    // Without this member sessions would get the operator's selection of tools.
    profile.insert("tools".to_owned(), Value::Array(Vec::new()));
    body.apply(&api.service, &mut profile)?;
    let request =
        PutAgent { tenant: caller.tenant, name: &name, expected: None, expects_none: true };
    put(&api, caller.tenant, request, &profile).await
}

/// Lists agents by their ids: those of the tenant, of the operator and of the service.
#[utoipa::path(
    get, path = "/anthropic/v1/agents", operation_id = "list_managed_agents", tag = "managed_agents",
    params(
        ("limit" = Option<i64>, Query, description = "The maximum number of items. A larger number than 200 counts as 200."),
        ("page" = Option<String>, Query, description = "The `next_page` or `prev_page` of another page."),
        ("include_archived" = Option<serde_json::Value>, Query, description = "Has no effect: archived agents are deleted."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
    ),
    responses(
        (status = 200, description = "A page of agents.", body = ManagedAgentsPage),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_managed_agents(
    State(api): State<Arc<Api>>,
    caller: Caller,
    query: SdkQuery,
) -> Result<Json<ManagedAgentsPage>, ApiError> {
    let request = page_request::<AgentName>(&query, true)?;
    let page = list_agents(&api.service, caller.tenant, request).await?;
    let mut data = Vec::new();
    for entry in &page.items {
        let agent = existing_agent(&api, caller.tenant, entry.name.as_str(), None).await;
        match agent {
            Ok(agent) => data.push(ManagedAgent::new(&api, caller.tenant, agent).await?.raw()),
            // Deleted in between.
            Err(ApiError::Service(Error::Agent(_))) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Json(ManagedAgentsPage::new(&page, data)))
}

/// Retrieves an agent.
#[utoipa::path(
    get, path = "/anthropic/v1/agents/{agent_id}", operation_id = "get_managed_agent", tag = "managed_agents",
    params(
        ("agent_id" = String, Path, description = "The id of the agent."),
        ("version" = Option<i32>, Query, description = "The version. When absent, the newest."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
    ),
    responses(
        (status = 200, description = "The agent.", body = ManagedAgent),
        (status = 400, description = "`invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`agent_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_managed_agent(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SdkPath,
    query: SdkQuery,
) -> Result<Json<ManagedAgent>, ApiError> {
    let SdkPath(id) = path;
    let version = query.read("version", "is not a version")?;
    let agent = existing_agent(&api, caller.tenant, &id, version).await?;
    ManagedAgent::new(&api, caller.tenant, agent).await.map(Json)
}

/// Changes an agent, which creates its next version unless nothing changes.
#[utoipa::path(
    post, path = "/anthropic/v1/agents/{agent_id}", operation_id = "update_managed_agent", tag = "managed_agents",
    params(
        ("agent_id" = String, Path, description = "The id of the agent."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
    ),
    request_body = ManagedAgentBody,
    responses(
        (status = 200, description = "The agent.", body = ManagedAgent),
        (status = 400, description = "`validation_failed`, `bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`agent_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`agent_name_taken`: the agent belongs to the operator or is built in; `too_many_agent_versions`", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "`version_mismatch`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "`quota_exceeded`, `rate_limited`", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn update_managed_agent(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SdkPath,
    body: JsonBody<ManagedAgentBody>,
) -> Result<Json<ManagedAgent>, ApiError> {
    let SdkPath(id) = path;
    let JsonBody(body) = body;
    let agent = existing_agent(&api, caller.tenant, &id, None).await?;
    if agent.source != AgentSource::Tenant {
        return Err(name_taken(&agent.name, agent.source).into());
    }
    let mut profile: Map<String, Value> =
        serde_json::from_str(agent.profile.get()).map_err(Error::internal)?;
    // The profile that was read must still be the newest.
    let version = body.version.unwrap_or_else(|| agent.version.into());
    if version != i64::from(agent.version) {
        return Err(Error::VersionMismatch.into());
    }
    body.apply(&api.service, &mut profile)?;
    let request = PutAgent {
        tenant: caller.tenant,
        name: &agent.name,
        expected: Some(vec![version]),
        expects_none: false,
    };
    put(&api, caller.tenant, request, &profile).await
}

/// Deletes an agent with all of its versions, because the service keeps no archived agents. Sessions
/// that were created from it keep their settings.
#[utoipa::path(
    post, path = "/anthropic/v1/agents/{agent_id}/archive", operation_id = "archive_managed_agent", tag = "managed_agents",
    params(
        ("agent_id" = String, Path, description = "The id of the agent."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
    ),
    responses(
        (status = 200, description = "The agent as it was, with the time of this request in `archived_at`.", body = ManagedAgent),
        (status = 404, description = "`agent_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`agent_name_taken`: the agent belongs to the operator or is built in", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn archive_managed_agent(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SdkPath,
) -> Result<Json<ManagedAgent>, ApiError> {
    let SdkPath(id) = path;
    let tenant = caller.tenant;
    let agent = existing_agent(&api, tenant, &id, None).await?;
    let (name, versions) = (agent.name.clone(), [i64::from(agent.version)]);
    let mut shown = ManagedAgent::new(&api, tenant, agent).await?;
    let request = DeleteAgent { tenant, name: &name, expected: Some(&versions) };
    delete_agent(&api.service, request).await?;
    if let Some(archived_at) = shown.0.get_mut("archived_at") {
        *archived_at = rfc3339::text(Timestamp::now()).into();
    }
    Ok(Json(shown))
}

async fn put(
    api: &Api,
    tenant: TenantId,
    request: PutAgent<'_>,
    profile: &Map<String, Value>,
) -> Result<Json<ManagedAgent>, ApiError> {
    let profile = parse(&serde_json::to_vec(profile).map_err(Error::internal)?)?;
    let PutOutcome { agent, .. } = put_agent(&api.service, request, profile).await?;
    ManagedAgent::new(api, tenant, agent).await.map(Json)
}

/// The name of a new agent in the API of the service.
fn new_name(display: &str) -> Result<AgentName, ApiError> {
    let mut slug = String::new();
    for letter in display.chars().map(|letter| letter.to_ascii_lowercase()) {
        let is_plain = letter.is_ascii_lowercase() || letter.is_ascii_digit();
        if is_plain && slug.len() < MAX_SLUG {
            slug.push(letter);
        } else if !is_plain && !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let id = Uuid::now_v7().simple().to_string();
    let end = id.get(20..).unwrap_or_default();
    let slug = slug.trim_end_matches('-');
    let name = if slug.is_empty() { format!("agent-{end}") } else { format!("{slug}-{end}") };
    name.parse().map_err(|error| ApiError::Service(Error::internal(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_new_agent_begins_with_its_display_name() {
        let long = "Long ".repeat(50);
        for (display, start) in [
            ("Coding Assistant", "coding-assistant-"),
            ("  Ærlig! (v2) ", "rlig-v2-"),
            ("助手", "agent-"),
            (&long, "long-long-"),
        ] {
            let names = [(); 2].map(|()| new_name(display).unwrap().to_string());
            assert!(names.iter().all(|name| name.starts_with(start)), "{names:?}");
            assert_ne!(names[0], names[1]);
        }
    }
}
