//! Sending events to a session.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::event::Members;
use super::sent_events::SentEvents;
use crate::domain::trace::Trace;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::headers::idempotency_key;
use crate::http::extract::large_body::LargeJsonBody;
use crate::http::extract::path::SessionPath;
use crate::http::routes::post_events::apply::{AppliedBatch, EventBatch};
use crate::http::routes::post_events::body::{CreateEvents, ParsedEvents, event_pointer};
use crate::http::state::Api;
use crate::service::Error;
use crate::service::messages::NewMessage;
use crate::service::offload::offload;

/// Maximum number of initial events of a session.
const MAX_INITIAL: usize = 50;

/// Events for a session. They are applied in order: interrupts, decisions and results, all of them or
/// none, and then a message, which is allowed only as the last event.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ManagedEvents {
    /// `user.message`, `user.interrupt`, `user.tool_confirmation` and `user.custom_tool_result`.
    #[schema(value_type = Vec<Object>, min_items = 1, max_items = 128)]
    events: Vec<Members>,
}

/// The events as they are stored.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ManagedSentEvents {
    /// The events, in the order of the request.
    #[schema(value_type = Vec<Object>)]
    data: Vec<Members>,
}

/// Sends events to a session.
///
/// An `Idempotency-Key`, or an `id` of the message, makes a request with a message safe to repeat.
#[utoipa::path(
    post, path = "/anthropic/v1/sessions/{session_id}/events", operation_id = "send_managed_events", tag = "managed_agents",
    params(
        ("session_id" = String, Path, description = "The session."),
        ("Idempotency-Key" = Option<String>, Header,
         description = "A key for safe repetition, as in `POST /v1/sessions/{session_id}/events`."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
    ),
    request_body = ManagedEvents,
    responses(
        (status = 200, description = "The events.", body = ManagedSentEvents),
        (status = 400, description = "`validation_failed`, `idempotency_key_reused`, `bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`, `approval_not_found`, `tool_call_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`already_resolved`, `call_not_waiting`; of the message: `queue_full`, `session_busy`, `action_required`, `session_archived`", body = Problem, content_type = "application/problem+json"),
        (status = 410, description = "`approval_expired`, `tool_result_expired`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "`overloaded`, `rate_limited`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_large_bodies`", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn send_managed_events(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    Extension(trace): Extension<Trace>,
    headers: HeaderMap,
    body: LargeJsonBody<ManagedEvents>,
) -> Result<Response, ApiError> {
    let SessionPath(session_id) = path;
    let LargeJsonBody(ManagedEvents { events }, body_permits) = body;
    let (events, parsed) = offload(body_permits.bytes(), move || {
        let events = without_nulls(events)?;
        let parsed = parsed(&events)?;
        Ok::<_, ApiError>((events, parsed))
    })
    .await??;
    let idempotency_key = idempotency_key(&headers)?.map(str::to_owned);
    let tenant = caller.tenant;
    let batch = EventBatch { tenant, session_id, trace, idempotency_key, events: parsed };
    let AppliedBatch { steps, posted } = match batch.apply(&api).await? {
        Ok(applied) => applied,
        Err(refused) => return Ok(refused),
    };
    drop(body_permits);
    let sent = SentEvents { service: &api.service, tenant, session_id };
    let data = sent.list(events, steps.unwrap_or_default(), posted).await?;
    Ok(Json(ManagedSentEvents { data }).into_response())
}

/// The messages of a new session. They have ids, so that a repeated request does not post them again.
pub(super) fn initial_messages(
    events: Vec<Map<String, Value>>,
) -> Result<Vec<NewMessage>, ApiError> {
    if events.len() > MAX_INITIAL {
        let message = format!("has {} events; at most {MAX_INITIAL} are allowed", events.len());
        return Err(ApiError::field("/initial_events", message));
    }
    let mut messages = Vec::new();
    for (index, mut event) in events.into_iter().enumerate() {
        let pointer = format!("/initial_events/{index}");
        if event.get("type").is_none_or(|kind| kind != "user.message") {
            let message = "is not `user.message`, the only type of initial events here";
            return Err(ApiError::field(&format!("{pointer}/type"), message));
        }
        event.entry("id").or_insert_with(|| format!("initial-{index}").into());
        let event = to_raw_value(&event).map_err(Error::internal)?;
        let parsed = CreateEvents::of(vec![event]).parse();
        // The event was parsed as the only one of a request.
        let moved = |error: Error| error.moved(&event_pointer(0), &pointer);
        messages.extend(parsed.map_err(moved)?.message);
    }
    Ok(messages)
}

/// The events without the members that are null: the SDKs send some of them.
fn without_nulls(mut events: Vec<Members>) -> Result<Vec<Members>, ApiError> {
    for (index, event) in events.iter_mut().enumerate() {
        event.retain(|_, value| value.get() != "null");
        let reason = match super::event::read::<String>(event, "type").as_deref() {
            Some("user.define_outcome") => "this service evaluates no outcomes",
            Some("user.tool_result") => "the service runs the tools of the toolset itself",
            Some("system.message") => "the system prompt of a session does not change",
            _ => continue,
        };
        let message = format!("is not supported: {reason}");
        return Err(ApiError::field(&format!("{}/type", event_pointer(index)), message));
    }
    Ok(events)
}

fn parsed(events: &[Members]) -> Result<ParsedEvents, ApiError> {
    let raw: Result<Vec<Box<RawValue>>, _> = events.iter().map(to_raw_value).collect();
    Ok(CreateEvents::of(raw.map_err(Error::internal)?).parse()?)
}
