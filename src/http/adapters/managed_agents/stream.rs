//! The stream of a session.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::HeaderMap;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::event::{Members, SdkEvent, read, translate};
use super::query::SdkQuery;
use crate::bus::PreviewFrame;
use crate::domain::event::{Frame, PreviewKind};
use crate::domain::ids::{EventId, SessionId};
use crate::domain::rfc3339;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::headers::{LAST_EVENT_ID, resume_after};
use crate::http::extract::path::SessionPath;
use crate::http::state::Api;
use crate::http::stream::encoder::StreamEncoder;
use crate::http::stream::event_types::EventTypes;
use crate::http::stream::format::StreamFormat;
use crate::http::stream::request::{StreamPhase, StreamRequest};
use crate::http::stream::response::{encoded, streamed};
use crate::service::lookup::{check_reached, newest_event};

/// The frames of the stream: each has an `event` with the type, and `data`.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "for the OpenAPI document")]
pub(in crate::http) struct ManagedAgentsStream(String);

/// Streams the events of a session from now on, until the client leaves.
///
/// As an extension, each event has its number as `id`, and a client that reconnects with
/// `Last-Event-ID` receives each event that it missed once. The response is a stream of server-sent
/// events whatever the header `Accept` says.
#[utoipa::path(
    get, path = "/anthropic/v1/sessions/{session_id}/events/stream", operation_id = "stream_managed_events", tag = "managed_agents",
    params(
        ("session_id" = String, Path, description = "The session."),
        ("event_deltas" = inline(Option<Vec<EventDelta>>), Query, description = "`event_deltas[]`: `agent.message` for previews of the text while the model writes it, `agent.thinking` for the beginning of thinking."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
        ("Last-Event-ID" = Option<i64>, Header, description = "The number of the last event that the client has seen."),
    ),
    responses(
        (status = 200, description = "The stream.", body = ManagedAgentsStream, content_type = "text/event-stream"),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`too_many_streams`, `draining`, `database_unavailable`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn stream_managed_events(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    query: SdkQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let SessionPath(session_id) = path;
    let encoder = ManagedStream::of(&query)?;
    // Before the newest event is read: later ones must not be missed.
    let subscription = api.service.bus.subscribe(session_id);
    let after = if headers.contains_key(LAST_EVENT_ID) {
        let position = resume_after(&headers, None)?;
        check_reached(&api.service, caller.tenant, session_id, position.seq, position.source())
            .await?;
        position.seq
    } else {
        newest_event(&api.service, caller.tenant, session_id).await?
    };
    let request = StreamRequest {
        tenant: caller.tenant,
        session_id,
        run_id: None,
        after,
        deltas: encoder.messages || encoder.thinking,
        types: EventTypes::default(),
        first_phase: StreamPhase::Backlog,
        ends_if_waiting: false,
    };
    let permit = api.stream_permit(&caller)?;
    let body = encoded(&api, request, subscription, permit, encoder);
    Ok(streamed(body, StreamFormat::EventStream))
}

/// Events of which a stream can have previews.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
enum EventDelta {
    #[serde(rename = "agent.message")]
    Message,
    #[serde(rename = "agent.thinking")]
    Thinking,
}

/// The frames of a stream.
#[derive(Debug)]
struct ManagedStream {
    /// Sends previews of messages.
    messages: bool,
    /// Sends the beginning of thinking.
    thinking: bool,
    /// The message whose preview has begun. The previews of a reply come one after the other.
    message: Option<Arc<str>>,
}

/// The event of a preview that begins.
#[derive(Debug, Deserialize)]
struct Started {
    r#type: String,
}

impl ManagedStream {
    fn of(query: &SdkQuery) -> Result<Self, ApiError> {
        let deltas: Vec<EventDelta> = query.names("event_deltas")?;
        let has = |kind| deltas.contains(&kind);
        let (messages, thinking) = (has(EventDelta::Message), has(EventDelta::Thinking));
        Ok(Self { messages, thinking, message: None })
    }
}

impl StreamEncoder for ManagedStream {
    fn first(&mut self, continues: bool) -> Bytes {
        StreamFormat::EventStream.first_bytes(continues)
    }

    fn event(&mut self, frame: &Frame) -> Bytes {
        let Some(SdkEvent { kind, members }) = translate(frame) else { return Bytes::new() };
        frame_of(Some(frame.seq), kind, &members)
    }

    fn preview(&mut self, preview: &PreviewFrame) -> Bytes {
        let line = StreamFormat::JsonLines.frame(preview.sse.clone());
        let Ok(mut members) = serde_json::from_slice::<Members>(&line) else { return Bytes::new() };
        for name in ["session_id", "run_id"] {
            members.remove(name);
        }
        let kind: String = read(&members, "type").unwrap_or_default();
        if kind == "event_start" {
            let started: Option<Started> = read(&members, "event");
            let is_of = |kind: PreviewKind| {
                started.as_ref().is_some_and(|event| event.r#type == kind.event_kind())
            };
            let is_message = is_of(PreviewKind::Message) && self.messages;
            self.message = is_message.then(|| Arc::clone(&preview.event_id));
            // Thinking is a signal without content.
            let is_thinking = is_of(PreviewKind::Thinking) && self.thinking;
            if is_message || is_thinking {
                return frame_of(None, "event_start", &members);
            }
        } else if kind == "event_delta" && self.message.as_ref() == Some(&preview.event_id) {
            return frame_of(None, "event_delta", &members);
        }
        Bytes::new()
    }

    fn deleted(&mut self, _: SessionId) -> Bytes {
        let now = rfc3339::text(Timestamp::now());
        let event = json!({ "type": "session.deleted", "id": EventId::new(), "processed_at": now });
        format!("event: session.deleted\ndata: {event}\n\n").into()
    }

    fn keep_alive(&self) -> Bytes {
        StreamFormat::EventStream.keep_alive_bytes()
    }

    fn last(&self) -> Bytes {
        StreamFormat::EventStream.last_bytes()
    }
}

fn frame_of(seq: Option<i64>, kind: &str, members: &Members) -> Bytes {
    let json = serde_json::to_string(members).unwrap_or_default();
    let id = seq.map(|seq| format!("id: {seq}\n")).unwrap_or_default();
    format!("{id}event: {kind}\ndata: {json}\n\n").into()
}
