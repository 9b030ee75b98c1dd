//! Creating agents and their next versions.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};

use super::resource::AgentResource;
use crate::domain::agent::AgentName;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::conditions::{expected, expects_none};
use crate::http::extract::json_body::JsonBody;
use crate::http::extract::path::AgentPath;
use crate::http::state::Api;
use crate::service::Error;
use crate::service::agents::{self, AgentProfile, PutAgent, PutOutcome};

/// Creates an agent or its next version.
///
/// The body replaces the whole profile. A body that equals the newest version creates no new
/// version. Sessions that were created from earlier versions keep their settings. A profile from
/// which no session could be created on this service is refused. A tenant can have at most 200
/// agents with at most 1000 versions each. A profile is at most 256 kB.
#[utoipa::path(
    put, path = "/agents/{name}", operation_id = "put_agent", tag = "agents",
    params(
        ("name" = String, Path, description = "The name of the agent."),
        ("If-Match" = Option<String>, Header,
         description = "The agent's `ETag`. If the agent has another version, the response is 412."),
        ("If-None-Match" = Option<String>, Header,
         description = "`*`: if an agent of this name exists, the response is 412."),
    ),
    request_body = AgentProfile,
    responses(
        (status = 200, description = "The agent, which existed before.", body = AgentResource,
         headers(("etag" = String, description = "The version of the agent."))),
        (status = 201, description = "The new agent.", body = AgentResource,
         headers(("etag" = String, description = "The version of the agent."))),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`agent_name_taken`: an agent of the operator or a built-in agent has the name; `too_many_agents`, `too_many_agent_versions`", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "`version_mismatch`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "`quota_exceeded`: the tenant has the maximum number of agent versions; `rate_limited`: the key has sent too many requests.", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`: the tenant stores the maximum number of bytes; `quota` names the resource.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn put_agent(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: AgentPath,
    headers: HeaderMap,
    body: JsonBody<AgentProfile>,
) -> Result<Response, ApiError> {
    let (AgentPath(text), JsonBody(profile)) = (path, body);
    let name: AgentName = text.parse().map_err(|error| Error::field("", format!("{error}")))?;
    let request = PutAgent {
        tenant: caller.tenant,
        name: &name,
        expected: expected(&headers),
        expects_none: expects_none(&headers),
    };
    let PutOutcome { agent, is_new } = agents::put_agent(&api.service, request, profile).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(AgentResource::new(&api, agent)?.respond(status))
}
