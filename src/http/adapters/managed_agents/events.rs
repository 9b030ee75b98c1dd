//! Lists of events.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use super::agent::raw;
use super::event::{native_types, translate};
use super::paging::{ManagedAgentsPage, page_request};
use super::query::SdkQuery;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::path::SessionPath;
use crate::http::routes::Order;
use crate::http::state::Api;
use crate::service::events::list_events;
use crate::service::lookup::newest_event;
use crate::service::paging::PageRequest;

/// Lists the events of a session, oldest first by default. Events of types that the protocol does not
/// have are left out.
#[utoipa::path(
    get, path = "/anthropic/v1/sessions/{session_id}/events", operation_id = "list_managed_events", tag = "managed_agents",
    params(
        ("session_id" = String, Path, description = "The session."),
        ("limit" = Option<i64>, Query, description = "The maximum number of items. A larger number than 200 counts as 200."),
        ("page" = Option<String>, Query, description = "The `next_page` of another page."),
        ("order" = inline(Option<Order>), Query, description = "`asc`, oldest first, the default; or `desc`."),
        ("types" = Option<Vec<String>>, Query, description = "`types[]`: only events of these types."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
    ),
    responses(
        (status = 200, description = "A page of events.", body = ManagedAgentsPage),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_managed_events(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    query: SdkQuery,
) -> Result<Json<ManagedAgentsPage>, ApiError> {
    let SessionPath(session_id) = path;
    let request: PageRequest<i64> = page_request(&query, query.is_ascending(true)?)?;
    let types = native_types(&query.all("types").collect::<Vec<_>>());
    if types.is_empty() {
        newest_event(&api.service, caller.tenant, session_id).await?;
        let empty = request.page(Vec::<i64>::new(), |seq| *seq);
        return Ok(Json(ManagedAgentsPage::new(&empty, Vec::new())));
    }
    let page = list_events(&api.service, caller.tenant, session_id, Some(types), request).await?;
    let events = page.items.iter().filter_map(translate);
    let data = events.map(|event| raw(&event.members)).collect();
    Ok(Json(ManagedAgentsPage::new(&page, data)))
}
