//! Deleting agents.

use axum::extract::State;
use http::{HeaderMap, StatusCode};
use sqlx::{Connection as _, PgConnection};

use super::super::answering::end;
use super::{ours, taken, unknown};
use crate::domain::agent::AgentName;
use crate::domain::ids::TenantId;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::conditions::{check, expected};
use crate::http::extract::path::AgentPath;
use crate::http::server::deadline::in_time;
use crate::http::state::Api;
use crate::store::agents::{delete, find, lock};

/// Deletes an agent of the caller's with all of its versions.
///
/// Sessions that were made as it keep what they have of it. An agent of this name that is made later
/// begins with version 1 again.
#[utoipa::path(
    delete, path = "/agents/{name}", operation_id = "delete_agent", tag = "agents",
    params(
        ("name" = String, Path, description = "The agent."),
        ("If-Match" = Option<String>, Header,
         description = "The agent's `ETag`: 412 if it has another version since."),
    ),
    responses(
        (status = 204, description = "It is gone."),
        (status = 404, description = "`agent_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`agent_name_taken`: it is the operator's, or the service's own", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "`version_mismatch`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn delete_agent(
    State(api): State<Api>,
    caller: Caller,
    path: AgentPath,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let AgentPath(text) = path;
    let name: AgentName = text.parse().map_err(|_| unknown(&text))?;
    let versions = expected(&headers);
    let deleted = async {
        let mut conn = api.pool.acquire_as(caller.tenant).await?;
        let mut transaction = conn.begin().await?;
        let met = meet(&mut transaction, caller.tenant, &name, versions.as_deref()).await;
        let met = end(transaction, met).await?;
        conn.give_back();
        met
    };
    if in_time(deleted).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    match ours::find(&api.defaults.agents, &name) {
        Some(agent) => Err(taken(&name, agent.source)),
        None => Err(unknown(&text)),
    }
}

/// Deletes it if it is there and has a version that the client expects, and says whether it was.
async fn meet(
    conn: &mut PgConnection,
    tenant: TenantId,
    name: &AgentName,
    versions: Option<&[i64]>,
) -> Result<bool, ApiError> {
    lock(conn, tenant).await?;
    if let Some(found) = find(conn, tenant, name, None).await? {
        check(versions, found.version.into())?;
    }
    Ok(delete(conn, tenant, name).await?)
}
