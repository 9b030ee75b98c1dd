//! One file a resource.

pub(in crate::http) mod agents;
mod answering;
pub(in crate::http) mod approvals;
mod client_tool;
pub(in crate::http) mod docs;
pub(in crate::http) mod events;
pub(in crate::http) mod explain;
pub(in crate::http) mod forks;
pub(in crate::http) mod health;
pub(in crate::http) mod info;
mod leaving;
pub(in crate::http) mod messages;
pub(in crate::http) mod models;
mod paging;
pub(in crate::http) mod post_events;
pub(in crate::http) mod post_message;
pub(in crate::http) mod probe;
pub(in crate::http) mod requests;
pub(in crate::http) mod runs;
mod server_tool;
pub(in crate::http) mod session_changes;
pub(in crate::http) mod session_checks;
pub(in crate::http) mod session_creation;
pub(in crate::http) mod session_deletion;
pub(in crate::http) mod session_export;
pub(in crate::http) mod session_import;
pub(in crate::http) mod session_list;
mod session_query;
mod session_tools;
pub(in crate::http) mod sessions;
mod stop;
pub(in crate::http) mod tickets;
pub(in crate::http) mod todos;
pub(in crate::http) mod tool_results;
pub(in crate::http) mod tools;
pub(in crate::http) mod usage;
pub(in crate::http) mod verify;
pub(in crate::http) mod webhooks;

use http::HeaderName;
use http::header::ETAG;

use crate::domain::ids::{SessionId, TenantId};
use crate::http::error::ApiError;
use crate::http::extract::conditions::tag;
use crate::http::state::Api;
use crate::store::sessions::last_seq;

/// Items of a page when the query names no number.
pub(in crate::http) const DEFAULT_LIMIT: i64 = 50;
pub(in crate::http) const MAX_LIMIT: i64 = 200;

fn page_limit(limit: Option<i64>) -> Result<i64, ApiError> {
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(ApiError::InvalidQuery(format!("limit is 1 to {MAX_LIMIT}, not {limit}")));
    }
    Ok(limit)
}

fn cursor<T: std::str::FromStr>(text: Option<String>) -> Result<Option<T>, ApiError> {
    text.map(|text| text.parse().map_err(|_| ApiError::InvalidCursor(text))).transpose()
}

/// A session's version, as its `ETag`.
fn version(last_seq: i64) -> [(HeaderName, String); 1] {
    [(ETAG, tag(last_seq))]
}

/// Refuses a place that the session's events have not reached: its reader would wait for events
/// that it then takes for old ones.
async fn known_place(
    api: &Api,
    tenant: TenantId,
    session_id: SessionId,
    after: i64,
) -> Result<(), ApiError> {
    if after > known_session(api, tenant, session_id).await? {
        return Err(ApiError::InvalidCursor(after.to_string()));
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
    last_seq.ok_or_else(|| ApiError::SessionNotFound(session_id.to_string()))
}
