//! The history of a session.

use axum::extract::State;
use axum::response::Response;
use http::Uri;
use serde::Deserialize;

use super::paging::{Order, page_request, respond as respond_page};
use crate::domain::ids::SessionId;
use crate::domain::page::Slice;
use crate::domain::plain::plain;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::path::SessionPath;
use crate::http::extract::query::Params;
use crate::http::resources::Page;
use crate::http::state::Api;
use crate::service::lookup::newest_event;
use crate::service::sessions::export::HistoryItem;
use crate::store::messages::{Range, list};

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ListMessages {
    /// Items of the page, 1 to 200.
    limit: Option<i64>,
    /// Only messages behind this place.
    after: Option<String>,
    /// Only messages before this place; the page is then the last one before it, and its
    /// `next_cursor` goes on in this direction.
    before: Option<String>,
    /// `asc`, which is meant where it is absent, or `desc`, newest first.
    #[param(inline)]
    order: Option<Order>,
    /// How messages are shown: `raw`, as the model reads them, or `plain`, without the
    /// `<tool_use_error>` tags around results of failed calls, and with images, documents and search
    /// results only by their names.
    #[param(inline)]
    view: Option<MessageView>,
}

/// How messages are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum MessageView {
    /// As the model reads them, byte for byte.
    #[default]
    Raw,
    /// As people read them.
    Plain,
}

/// Lists the messages of a session in the form of the Messages API, oldest first unless `order` says
/// otherwise.
#[utoipa::path(
    get, path = "/sessions/{session_id}/messages", operation_id = "list_messages", tag = "messages",
    params(("session_id" = String, Path, description = "The session."), ListMessages),
    responses(
        (status = 200, description = "A page of the history.", body = Page<HistoryItem>,
         headers(("link" = String, description = "Its neighbours: `next` and `prev` (RFC 8288)."))),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_messages(
    State(api): State<Api>,
    caller: Caller,
    path: SessionPath,
    query: Params<ListMessages>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let SessionPath(session_id) = path;
    let Params(ListMessages { limit, after, before, order, view }) = query;
    let asked = page_request(limit, after, before, order.unwrap_or(Order::Asc))?;
    newest_event(&api.service, caller.tenant, session_id).await?;
    let mut conn = api.pool.acquire_as(caller.tenant).await?;
    let stored = list(&mut conn, range(session_id, asked.slice())).await?;
    let mut page = asked.page(stored, |stored| stored.seq);
    if let Some(back) = page.slice_before() {
        page.set_has_previous(!list(&mut conn, range(session_id, back)).await?.is_empty());
    }
    conn.give_back();
    if view == Some(MessageView::Plain) {
        for stored in &mut page.items {
            let content = plain(&stored.message.content);
            stored.message.content =
                content.map_err(|error| ApiError::Internal(error.to_string()))?;
        }
    }
    Ok(respond_page(page.map(|stored| HistoryItem::new(session_id, stored)), &uri))
}

/// A history is numbered from 1.
fn range(session_id: SessionId, Slice { from, is_upwards, limit }: Slice<i32>) -> Range {
    let (after, before) =
        if is_upwards { (from.unwrap_or(0), None) } else { (0, from.or(Some(i32::MAX))) };
    Range { session_id, after, before, limit }
}
