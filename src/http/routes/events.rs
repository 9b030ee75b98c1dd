//! The events of a session, as pages and as a stream.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Uri};
use serde::Deserialize;

use super::paging::{Order, links, page_request};
use crate::domain::event::Frame;
use crate::domain::streamed::{Event, Streamed};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::conditions::tagged;
use crate::http::extract::headers::resume_after;
use crate::http::extract::path::SessionPath;
use crate::http::resources::Page;
use crate::http::state::Api;
use crate::http::stream::event_types::{EventTypes, TypedParams};
use crate::http::stream::format::StreamFormat;
use crate::http::stream::request::{StreamPhase, StreamRequest};
use crate::http::stream::response::respond;
use crate::service;
use crate::service::lookup::check_reached;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ListEvents {
    /// The number of items per page, 1 to 200; 50 by default.
    limit: Option<i64>,
    /// Only events with a greater number; with `order=desc`, a smaller one.
    #[param(value_type = Option<i64>)]
    after: Option<String>,
    /// Only events with a smaller number; with `order=desc`, a greater one. The page ends there.
    #[param(value_type = Option<i64>)]
    before: Option<String>,
    /// `asc`, oldest first, the default; or `desc`, newest first.
    #[param(inline)]
    order: Option<Order>,
    /// Only events of these types, separated by commas, or in several `types`.
    #[param(value_type = Option<Vec<String>>, explode)]
    types: Option<String>,
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct StreamEvents {
    /// The number of the last event that the client has seen; by default 0, which means none. The
    /// header `Last-Event-ID` has precedence.
    #[param(minimum = 0)]
    pub(super) after: Option<i64>,
    /// True to send previews: text, thinking and tool input while the model writes it; `true` by
    /// default.
    pub(super) deltas: Option<bool>,
    /// Only events and previews of these types, separated by commas, or in several `types`.
    #[param(example = "agent.message,session.status_idle")]
    pub(super) types: Option<String>,
}

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "for the OpenAPI document; the handler reads the headers themselves")]
pub(in crate::http) struct StreamHeaders {
    /// The number of the last event that the client has seen.
    #[param(rename = "Last-Event-ID", minimum = 0)]
    last_event_id: Option<i64>,
}

/// Lists the events of a session, oldest first by default.
///
/// With `types`, one request searches at most 5000 events. If the search stops before the page is
/// full and before the end of the list, the page has the events found so far, possibly none, and a
/// `next_cursor` from which to continue.
#[utoipa::path(
    get, path = "/sessions/{session_id}/events", operation_id = "list_events", tag = "events",
    params(("session_id" = String, Path, description = "The session."), ListEvents),
    responses(
        (status = 200, description = "A page of events.", body = Page<Event>,
         headers(("link" = String, description = "Links to the next and the previous page (RFC 8288): `next`, `prev`."))),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_events(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    query: TypedParams<ListEvents>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let SessionPath(session_id) = path;
    let TypedParams(ListEvents { limit, after, before, order, types }) = query;
    let request = page_request(limit, after, before, order.unwrap_or(Order::Asc))?;
    let types = EventTypes::of(types.as_deref()).of_events()?;
    let read =
        service::events::list_events(&api.service, caller.tenant, session_id, types, request);
    let page = read.await?;
    Ok((links(&page, &uri), encode_page(page.into())).into_response())
}

/// Joins the events of a page, which are encoded already.
fn encode_page(page: Page<Frame>) -> Response {
    let mut body = br#"{"data":["#.to_vec();
    for (index, frame) in page.data.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&frame.json());
    }
    body.extend_from_slice(format!(r#"],"has_more":{}"#, page.has_more).as_bytes());
    for (name, cursor) in [("next_cursor", page.next_cursor), ("prev_cursor", page.prev_cursor)] {
        if let Some(cursor) = cursor {
            body.extend_from_slice(format!(r#","{name}":"{cursor}""#).as_bytes());
        }
    }
    body.push(b'}');
    tagged(body)
}

/// Streams the events of a session, across its runs, until the client leaves.
///
/// The `data` of each SSE event is one event of the session; its `id` is the number of the event. A
/// client that reconnects with `Last-Event-ID` receives each event that it missed once. `event_start`
/// and `event_delta` are previews without a number: they contain text, thinking or tool input while
/// the model writes it, and are replaced by the event with the same id. With
/// `Accept: application/jsonl`, each line is one event.
#[utoipa::path(
    get, path = "/sessions/{session_id}/events/stream", operation_id = "stream_events", tag = "events",
    params(("session_id" = String, Path, description = "The session."), StreamEvents, StreamHeaders),
    responses(
        (status = 200, description = "The stream. The schema describes the `data` of one event, or one line.",
         content((Streamed<'static> = "text/event-stream"), (Streamed<'static> = "application/jsonl"),
                 (Streamed<'static> = "application/x-ndjson"))),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 406, description = "`not_acceptable`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`too_many_streams`, `draining`, `database_unavailable`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn stream_events(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    query: TypedParams<StreamEvents>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let SessionPath(session_id) = path;
    let TypedParams(StreamEvents { after, deltas, types }) = query;
    let format = StreamFormat::of(&headers)?;
    let position = resume_after(&headers, after)?;
    let after = position.seq;
    check_reached(&api.service, caller.tenant, session_id, after, position.source()).await?;
    let subscription = api.service.bus.subscribe(session_id);
    let request = StreamRequest {
        tenant: caller.tenant,
        session_id,
        run_id: None,
        after,
        deltas: deltas.unwrap_or(true),
        types: EventTypes::of(types.as_deref()),
        first_phase: StreamPhase::Backlog,
        ends_if_waiting: false,
    };
    Ok(respond(&api, request, subscription, api.stream_permit(&caller)?, format))
}
