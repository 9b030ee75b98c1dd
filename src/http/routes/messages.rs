//! The history of a session.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;

use super::{cursor, known_session, page_limit};
use crate::domain::plain::plain;
use crate::http::Api;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::resources::{HistoryItem, Page};
use crate::http::target::{Params, SessionPath};
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

/// Lists the messages of a session in the form of the Messages API, oldest first.
#[utoipa::path(
    get, path = "/sessions/{session_id}/messages", operation_id = "list_messages", tag = "messages",
    params(("session_id" = String, Path, description = "The session."), ListMessages),
    responses(
        (status = 200, description = "A page of the history.", body = Page<HistoryItem>),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_messages(
    State(api): State<Api>,
    caller: Caller,
    path: SessionPath,
    query: Params<ListMessages>,
) -> Result<Json<Page<HistoryItem>>, ApiError> {
    let SessionPath(session_id) = path;
    let Params(ListMessages { limit, after, before, view }) = query;
    let limit = page_limit(limit)?;
    let (after, before) = (cursor::<i32>(after)?.unwrap_or(0), cursor::<i32>(before)?);
    known_session(&api, caller.tenant, session_id).await?;
    let mut conn = api.pool.acquire().await?;
    let range = Range { session_id, after, before, limit: limit + 1 };
    let stored = list(&mut conn, range).await?;
    conn.give_back();
    let mut items = Vec::with_capacity(stored.len());
    for mut stored in stored {
        if view == Some(MessageView::Plain) {
            let content = plain(&stored.message.content);
            stored.message.content =
                content.map_err(|error| ApiError::Internal(error.to_string()))?;
        }
        items.push(HistoryItem::new(session_id, stored));
    }
    if before.is_none() {
        return Ok(Json(Page::new(items, limit, |item| item.seq().to_string())));
    }
    // Read backwards: what is too many is the first one.
    items.reverse();
    let mut page = Page::new(items, limit, |item| item.seq().to_string());
    page.data.reverse();
    Ok(Json(page))
}
