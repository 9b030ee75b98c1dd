//! Lists of sessions.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::agent::raw;
use super::paging::{ManagedAgentsPage, page_request};
use super::query::SdkQuery;
use super::session::Sessions;
use crate::domain::ids::SessionId;
use crate::domain::session_filter::{SessionFilter, SessionState};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::routes::Order;
use crate::http::state::Api;
use crate::service::paging::PageRequest;
use crate::service::sessions::list_sessions;

/// The resolution of times in the database.
const RESOLUTION: SignedDuration = SignedDuration::from_micros(1);

/// A status of this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum ManagedStatus {
    Idle,
    Running,
    Rescheduling,
    Terminated,
}

/// Lists sessions, by default newest first, without those of sub-agents.
#[utoipa::path(
    get, path = "/anthropic/v1/sessions", operation_id = "list_managed_sessions", tag = "managed_agents",
    params(
        ("limit" = Option<i64>, Query, description = "The maximum number of items. A larger number than 200 counts as 200."),
        ("page" = Option<String>, Query, description = "The `next_page` or `prev_page` of another page."),
        ("order" = inline(Option<Order>), Query, description = "`desc`, newest first, the default; or `asc`."),
        ("agent_id" = Option<String>, Query, description = "Selects the sessions of this agent."),
        ("agent_version" = Option<i32>, Query, description = "Selects the sessions of this version of the agent."),
        ("created_at[gt]" = Option<String>, Query, format = DateTime, description = "Selects sessions that were created after this time."),
        ("created_at[gte]" = Option<String>, Query, format = DateTime, description = "Selects sessions that were created at or after this time."),
        ("created_at[lt]" = Option<String>, Query, format = DateTime, description = "Selects sessions that were created before this time."),
        ("created_at[lte]" = Option<String>, Query, format = DateTime, description = "Selects sessions that were created at or before this time."),
        ("include_archived" = Option<bool>, Query, description = "True to list archived sessions as well."),
        ("statuses" = inline(Option<Vec<ManagedStatus>>), Query, description = "`statuses[]`: selects sessions that have one of these statuses, `idle` or `running`. `rescheduling` and `terminated` select none."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
    ),
    responses(
        (status = 200, description = "A page of sessions.", body = ManagedAgentsPage),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_managed_sessions(
    State(api): State<Arc<Api>>,
    caller: Caller,
    query: SdkQuery,
) -> Result<Json<ManagedAgentsPage>, ApiError> {
    let request: PageRequest<SessionId> = page_request(&query, query.is_ascending(false)?)?;
    let statuses: Vec<ManagedStatus> = query.names("statuses")?;
    let has = |status| statuses.contains(&status);
    let state = match (has(ManagedStatus::Idle), has(ManagedStatus::Running)) {
        (true, true) => None,
        (true, false) => Some(SessionState::Idle),
        (false, true) => Some(SessionState::Busy),
        (false, false) if statuses.is_empty() => None,
        (false, false) => {
            let empty = request.page(Vec::<SessionId>::new(), |id| *id);
            return Ok(Json(ManagedAgentsPage::new(&empty, Vec::new())));
        }
    };
    let filter = SessionFilter {
        archived: (!query.flag("include_archived")?).then_some(false),
        state,
        created_after: created_after(&query)?,
        created_before: created_before(&query)?,
        agent: query.one("agent_id")?.map(str::to_owned),
        agent_version: query.read("agent_version", "is not a version")?,
        ..SessionFilter::default()
    };
    if filter.agent.as_ref().is_some_and(|name| name.contains('\0')) {
        return Err(ApiError::query("agent_id", "has a NUL character"));
    }
    let page = list_sessions(&api.service, caller.tenant, &filter, request).await?;
    let mut sessions = Sessions::new(&api, caller.tenant);
    let mut data = Vec::new();
    for session in &page.items {
        data.push(raw(&sessions.render(session).await?));
    }
    Ok(Json(ManagedAgentsPage::new(&page, data)))
}

/// The time after which the sessions were created: the later one of two conditions.
fn created_after(query: &SdkQuery) -> Result<Option<Timestamp>, ApiError> {
    let from = query.time("created_at[gte]")?;
    let from = from.map(|from| from.checked_sub(RESOLUTION).unwrap_or(from));
    // No session is older than the epoch, and the database does not store every earlier time.
    let after = query.time("created_at[gt]")?.max(from);
    Ok(after.map(|after| after.max(Timestamp::UNIX_EPOCH)))
}

fn created_before(query: &SdkQuery) -> Result<Option<Timestamp>, ApiError> {
    let up_to = query.time("created_at[lte]")?;
    let up_to = up_to.map(|up_to| up_to.checked_add(RESOLUTION).unwrap_or(up_to));
    let before = query.time("created_at[lt]")?;
    let before = match (before, up_to) {
        (Some(before), Some(up_to)) => Some(before.min(up_to)),
        (one, other) => one.or(other),
    };
    Ok(before.map(|before| before.max(Timestamp::UNIX_EPOCH)))
}
