//! One file a resource.

pub(in crate::http) mod agents;
mod answering;
pub(in crate::http) mod approvals;
pub(in crate::http) mod docs;
pub(in crate::http) mod events;
pub(in crate::http) mod explain;
pub(in crate::http) mod health;
pub(in crate::http) mod info;
pub(in crate::http) mod messages;
pub(in crate::http) mod models;
mod paging;
pub(in crate::http) mod post_events;
pub(in crate::http) mod post_message;
pub(in crate::http) mod probe;
pub(in crate::http) mod requests;
pub(in crate::http) mod runs;
pub(in crate::http) mod sessions;
pub(in crate::http) mod todos;
pub(in crate::http) mod tool_results;
pub(in crate::http) mod tools;
pub(in crate::http) mod usage;
pub(in crate::http) mod verify;
pub(in crate::http) mod webhooks;

use crate::domain::ids::{SessionId, TenantId};
use crate::http::error::ApiError;
use crate::http::state::Api;
use crate::service::Error;
use crate::store::sessions::last_seq;
pub(in crate::http) use paging::{DEFAULT_LIMIT, MAX_LIMIT};

/// Refuses a place that the session's events have not reached: its reader would wait for events
/// that it then takes for old ones.
async fn known_place(
    api: &Api,
    tenant: TenantId,
    session_id: SessionId,
    after: i64,
) -> Result<(), ApiError> {
    if after > known_session(api, tenant, session_id).await? {
        return Err(ApiError::Service(Error::InvalidCursor(after.to_string())));
    }
    Ok(())
}

/// The number of a session's newest event, or that there is no such session.
async fn known_session(
    api: &Api,
    tenant: TenantId,
    session_id: SessionId,
) -> Result<i64, ApiError> {
    let mut conn = api.pool.acquire_as(tenant).await?;
    let last_seq = last_seq(&mut conn, tenant, session_id).await?;
    conn.give_back();
    last_seq.ok_or_else(|| ApiError::Service(Error::SessionNotFound(session_id.to_string())))
}
