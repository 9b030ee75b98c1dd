//! Posting several events in one request: interrupts, decisions, results and a message.

mod body;

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use http::HeaderMap;
use serde::Serialize;

use crate::domain::ids::RunId;
use crate::domain::trace::Trace;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem, refused_after};
use crate::http::extract::headers::idempotency_key;
use crate::http::extract::idempotency::mark_repeated;
use crate::http::extract::large_body::LargeJsonBody;
use crate::http::extract::path::SessionPath;
use crate::http::resources::Page;
use crate::http::state::Api;
use crate::service::Error;
use crate::service::client_events::{ClientEvents, EventResult, PostEvents};
use crate::service::deadline::in_time;
use crate::service::messages::{PostMessage, PostedRun};
use crate::service::offload::offload;
use crate::service::session_settings::check_mode;
use body::{CreateEvents, ParsedEvents, event_pointer};

/// The result of one event.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct AppliedEvent {
    /// The type of the event.
    r#type: &'static str,
    /// True if an earlier request had the same effect, so that this one had none.
    repeated: bool,
    /// The runs that the event concerns: the run of the message or of the call, or the runs that are
    /// being stopped. For a repeated request, only the run of its message.
    #[schema(value_type = Vec<String>)]
    run_ids: Vec<RunId>,
}

/// Applies several events to a session, in order: interrupts, decisions, results, and a message as
/// the last one.
///
/// Each event has the effect of its own route: `POST …/cancel`, `…/approvals/{tool_use_id}`,
/// `…/tool_results`, `…/messages`. The request is validated completely before an event is applied.
/// The events before the message are applied in one transaction, all of them or none. The message is
/// accepted after that. If it is refused, for example because the queue is full, the events before it
/// have been applied, and `applied` in the problem is their number.
///
/// An `Idempotency-Key`, or an `id` of the message, makes a request with a message safe to repeat:
/// none of its events is applied twice. Without a message, decisions and results need no key, and an
/// interrupt cancels the runs that are active or queued when it arrives.
#[utoipa::path(
    post, path = "/sessions/{session_id}/events", operation_id = "create_events", tag = "events",
    params(
        ("session_id" = String, Path, description = "The session."),
        ("Idempotency-Key" = Option<String>, Header,
         description = "A second request to this session with the same key and body returns the same \
            run of the message; with another body 422. Valid as long as the session exists."),
    ),
    request_body = CreateEvents,
    responses(
        (status = 200, description = "The result of each event, in order.", body = Page<AppliedEvent>,
         headers(("idempotency-replayed" = String, description = "`true` for a repeated request."))),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`, `approval_not_found`, `tool_call_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`already_resolved`, `call_not_waiting`; of the message: `queue_full`, `session_busy`, `action_required`, `session_archived`", body = Problem, content_type = "application/problem+json"),
        (status = 410, description = "`approval_expired`, `tool_result_expired`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`, `idempotency_key_reused`", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "`overloaded`: too many runs are queued over all sessions; `rate_limited`: the key has sent too many requests. `Retry-After` is the time after which to retry.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_large_bodies`", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`: the tenant stores the maximum number of bytes; `quota` names the resource.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_events(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    Extension(trace): Extension<Trace>,
    headers: HeaderMap,
    body: LargeJsonBody<CreateEvents>,
) -> Result<Response, ApiError> {
    let SessionPath(session_id) = path;
    let LargeJsonBody(events, body_permits) = body;
    let ParsedEvents { kinds, steps, message, canonical_steps } =
        offload(body_permits.bytes(), move || events.parse()).await??;
    let idempotency_key = idempotency_key(&headers)?.map(str::to_owned);
    if api.draining.is_cancelled() {
        return Err(Error::Draining.into());
    }
    let (tenant, last_pointer) = (caller.tenant, event_pointer(kinds.len() - 1));
    if let Some(message) = &message {
        let checked = check_mode(&api.service, message.permission_mode);
        checked.map_err(|error| error.under(&last_pointer))?;
    }
    let message = message.map(|message| PostMessage {
        tenant,
        session_id,
        message,
        idempotency_key,
        // The events before the message change the version of the session.
        versions: None,
        trace,
        other_events: canonical_steps,
    });
    let request = PostEvents { tenant, session_id, steps, message, last_pointer };
    let events = ClientEvents::new(&api.service, &request)?;
    let steps = Box::pin(in_time(events.apply_steps())).await?;
    let done = steps.as_ref().map_or(0, Vec::len);
    let posted = match Box::pin(in_time(events.post_message())).await {
        Ok(posted) => posted,
        Err(error) => {
            let error = ApiError::from(error.under(&request.last_pointer));
            return Ok(refused_after(error, done));
        }
    };
    drop(body_permits);
    let is_repeated = posted.as_ref().is_some_and(|posted| posted.is_repeated);
    let data = applied(&kinds, steps, posted.as_ref());
    let mut response = Json(Page::whole(data)).into_response();
    mark_repeated(&mut response, is_repeated);
    Ok(response)
}

/// The result of each event. If the message was accepted before, so were the events before it, and
/// their runs are not known here.
fn applied(
    kinds: &[&'static str],
    steps: Option<Vec<EventResult>>,
    message: Option<&PostedRun>,
) -> Vec<AppliedEvent> {
    let before = kinds.len() - usize::from(message.is_some());
    let repeated = EventResult { run_ids: Vec::new(), is_repeated: true };
    let steps = steps.unwrap_or_else(|| vec![repeated; before]);
    let message = message.map(|posted| EventResult {
        run_ids: vec![posted.run.id],
        is_repeated: posted.is_repeated,
    });
    let event = |(kind, event): (&&'static str, EventResult)| AppliedEvent {
        r#type: kind,
        repeated: event.is_repeated,
        run_ids: event.run_ids,
    };
    kinds.iter().zip(steps.into_iter().chain(message)).map(event).collect()
}
