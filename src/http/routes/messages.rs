//! The history of a session.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::Uri;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::paging::{Order, links, page_request};
use crate::domain::event::Frame;
use crate::domain::plain_view::plain;
use crate::domain::streamed::Event;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::conditions::tagged_json;
use crate::http::extract::path::SessionPath;
use crate::http::extract::query::Params;
use crate::http::resources::Page;
use crate::http::state::Api;
use crate::service::history::{HistoryPage, error_types, list_messages as read_messages};
use crate::service::sessions::export::HistoryItem;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ListMessages {
    /// The number of items per page, 1 to 200; 50 by default.
    limit: Option<i64>,
    /// Only messages after this cursor.
    after: Option<String>,
    /// Only messages before this cursor; the page ends there, and its `next_cursor` continues
    /// backwards.
    before: Option<String>,
    /// `asc`, oldest first, the default; or `desc`, newest first.
    #[param(inline)]
    order: Option<Order>,
    /// The form of the messages: `raw`, as the model reads them; or `plain`, without the
    /// `<tool_use_error>` tags around results of failed calls, and with names instead of images,
    /// documents and search results. In the plain form every `tool_result` block has `is_error` and
    /// `handling` (`SUCCESS` if the call succeeded), and `error_type` if the type of its failure is
    /// known.
    #[param(inline)]
    view: Option<MessageView>,
}

/// The form of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum MessageView {
    /// As the model reads them, byte for byte.
    #[default]
    Raw,
    /// For people.
    Plain,
}

/// A page of the history of a session, and its position among the events of the session.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct MessagesPage {
    /// The items, and the cursors of the neighbouring pages.
    #[serde(flatten)]
    page: Page<HistoryItem>,
    /// The number of the newest event of the session when the page was read.
    last_seq: i64,
    /// The events up to `last_seq` whose content is not in the history yet: messages of queued runs,
    /// and results of calls while other calls of the same reply have none. Only on the page with the
    /// newest message.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Event>>)]
    unplaced_events: Option<Vec<Box<RawValue>>>,
}

/// Lists the messages of a session in the form of the Messages API, oldest first by default.
///
/// The page and `last_seq` are of one moment. A client that shows the page with the newest message and
/// its `unplaced_events`, and then opens a stream with `last_seq` as `after`, misses no event and
/// receives none twice.
#[utoipa::path(
    get, path = "/sessions/{session_id}/messages", operation_id = "list_messages", tag = "messages",
    params(("session_id" = String, Path, description = "The session."), ListMessages),
    responses(
        (status = 200, description = "A page of the history.", body = MessagesPage,
         headers(("link" = String, description = "Links to the next and the previous page (RFC 8288): `next`, `prev`."))),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_messages(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    query: Params<ListMessages>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let SessionPath(session_id) = path;
    let Params(ListMessages { limit, after, before, order, view }) = query;
    let request = page_request(limit, after, before, order.unwrap_or(Order::Asc))?;
    let read = read_messages(&api.service, caller.tenant, session_id, request);
    let HistoryPage { mut page, mut events, mut feedback, last_seq, unplaced } = read.await?;
    if view == Some(MessageView::Plain) {
        let service = &api.service;
        let types = error_types(service, caller.tenant, session_id, &page.items).await?;
        for stored in &mut page.items {
            let known = |id: &str| types.get(&(stored.seq - 1, id.to_owned())).copied();
            let content = plain(&stored.message.content, known);
            stored.message.content =
                content.map_err(|error| ApiError::Internal(error.to_string()))?;
        }
    }
    let links = links(&page, &uri);
    let page = page.map(|stored| {
        let events = events.remove(&stored.seq).unwrap_or_default();
        let feedback = feedback.remove(&stored.message_id);
        HistoryItem::new(session_id, stored).with_events(events).with_feedback(feedback)
    });
    let unplaced = unplaced.map(|frames| frames.iter().map(raw).collect::<Result<_, _>>());
    let unplaced_events = unplaced.transpose()?;
    let body = MessagesPage { page: page.into(), last_seq, unplaced_events };
    Ok((links, tagged_json(&body)).into_response())
}

/// An event, which is encoded already.
fn raw(frame: &Frame) -> Result<Box<RawValue>, ApiError> {
    serde_json::from_slice(&frame.json()).map_err(|error| ApiError::Internal(error.to_string()))
}
