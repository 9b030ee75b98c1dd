//! Deleting agents.

use std::sync::Arc;

use axum::extract::State;
use http::{HeaderMap, StatusCode};

use super::resource::parse_name;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::conditions::expected;
use crate::http::extract::path::AgentPath;
use crate::http::state::Api;
use crate::service::agents::{self, DeleteAgent};

/// Deletes an agent of the tenant with all of its versions.
///
/// Sessions that were created from the agent keep their settings. If an agent of the same name is
/// created later, it begins with version 1.
#[utoipa::path(
    delete, path = "/agents/{name}", operation_id = "delete_agent", tag = "agents",
    params(
        ("name" = String, Path, description = "The name of the agent."),
        ("If-Match" = Option<String>, Header,
         description = "The agent's `ETag`. If the agent has another version, the response is 412."),
    ),
    responses(
        (status = 204, description = "The agent was deleted."),
        (status = 404, description = "`agent_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`agent_name_taken`: the agent belongs to the operator or is built in", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "`version_mismatch`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn delete_agent(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: AgentPath,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let AgentPath(text) = path;
    let name = parse_name(&text)?;
    let versions = expected(&headers);
    let request = DeleteAgent { tenant: caller.tenant, name: &name, expected: versions.as_deref() };
    agents::delete_agent(&api.service, request).await?;
    Ok(StatusCode::NO_CONTENT)
}
