//! The stream of the session list.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use futures::stream;
use http::HeaderMap;
use serde::Deserialize;

use crate::domain::feed_position::FeedPosition;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::headers::LAST_EVENT_ID;
use crate::http::extract::query::Params;
use crate::http::resources::SessionListEvent;
use crate::http::state::Api;
use crate::http::stream::format::StreamFormat;
use crate::http::stream::response::streamed;
use crate::http::stream::session_list::{ListStream, ListView};
use crate::service::change_feed::FeedReader;
use crate::service::deadline::in_time;
use crate::service::paging::CursorSource;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct StreamSessions {
    /// Only sessions of this user.
    user: Option<String>,
    /// Only sessions of this agent, by its name.
    agent: Option<String>,
    /// The position after which the stream begins: the `id` of an event. When absent, the stream begins
    /// with the changes from now on. `Last-Event-ID` takes precedence.
    after: Option<String>,
}

/// Streams the changes of the list of sessions, until the client leaves.
///
/// Each event is a session that has changed, in its present state: it was created, renamed, updated,
/// archived, restored or deleted, or a run started, waits for the client or has settled. Several changes
/// that follow each other closely are one event. Sessions of sub-agents are left out.
///
/// Open the stream, and list the sessions after that, so that no change is missed. The stream begins
/// with an `id`, so that a client that reconnects with `Last-Event-ID` misses nothing. An `id` is valid for
/// 29 days. An event can come again after a disconnect.
#[utoipa::path(
    get, path = "/sessions/stream", operation_id = "stream_sessions", tag = "sessions",
    params(
        StreamSessions,
        ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event that the client has seen."),
    ),
    responses(
        (status = 200, description = "The stream. The schema describes the `data` of one event, or one line.",
         content((SessionListEvent = "text/event-stream"), (SessionListEvent = "application/jsonl"),
                 (SessionListEvent = "application/x-ndjson"))),
        (status = 400, description = "`invalid_cursor`: the position is not one of the stream, or it is too old; list the sessions again. `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 406, description = "`not_acceptable`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`too_many_streams`, `draining`, `database_unavailable`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn stream_sessions(
    State(api): State<Arc<Api>>,
    caller: Caller,
    query: Params<StreamSessions>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let Params(StreamSessions { mut user, agent, after }) = query;
    let format = StreamFormat::of(&headers)?;
    if let Some(only) = caller.only_user() {
        if user.as_ref().is_some_and(|other| other != only) {
            return Err(ApiError::NoBrowserTokens("`user` is not the user of the token"));
        }
        user = Some(only.to_owned());
    }
    let (after, source) = match headers.get(LAST_EVENT_ID) {
        Some(id) => {
            let id = id.to_str().unwrap_or_default().to_owned();
            (Some(id), CursorSource::Header(LAST_EVENT_ID))
        }
        None => (after, CursorSource::Parameter("after")),
    };
    let refuse =
        |text: String| source.refuse(format!("is {text:?}; the id of an event is required"));
    let after = after.map(|text| text.parse::<FeedPosition>().map_err(|_| refuse(text)));
    let after = after.transpose()?;
    let permit = api.stream_permit(&caller)?;
    let reader = in_time(FeedReader::start(&api.service, caller.tenant, after, source)).await?;
    let view = ListView { user, agent, is_browser: caller.is_browser() };
    let stream =
        stream::unfold(ListStream::new(&api, reader, view, format, permit), async |mut stream| {
            Some((stream.next().await?, stream))
        });
    Ok(streamed(Body::from_stream(stream), format))
}
