//! One file a resource.

pub(super) mod agents;
mod answering;
pub(super) mod approvals;
mod client_tool;
pub(super) mod docs;
pub(super) mod events;
pub(super) mod explain;
pub(super) mod forks;
pub(super) mod health;
pub(super) mod info;
mod leaving;
pub(super) mod messages;
pub(super) mod models;
mod paging;
pub(super) mod post_events;
pub(super) mod post_message;
pub(super) mod probe;
pub(super) mod requests;
pub(super) mod runs;
mod server_tool;
pub(super) mod session_changes;
pub(super) mod session_checks;
pub(super) mod session_creation;
pub(super) mod session_deletion;
pub(super) mod session_export;
pub(super) mod session_import;
pub(super) mod session_list;
mod session_query;
mod session_tools;
pub(super) mod sessions;
mod stop;
pub(super) mod tickets;
pub(super) mod todos;
pub(super) mod tool_results;
pub(super) mod tools;
pub(super) mod usage;
pub(super) mod verify;
pub(super) mod webhooks;

use http::HeaderName;
use http::header::ETAG;

use crate::domain::ids::{SessionId, TenantId};
use crate::http::Api;
use crate::http::conditions::tag;
use crate::http::error::ApiError;
use crate::store::sessions::last_seq;

/// Items of a page when the query names no number.
pub(super) const DEFAULT_LIMIT: i64 = 50;
pub(super) const MAX_LIMIT: i64 = 200;

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
