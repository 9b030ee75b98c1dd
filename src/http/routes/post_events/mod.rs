//! Posting several events in one request: interrupts, decisions, results and a message.

pub(in crate::http) mod apply;
pub(in crate::http) mod body;
mod reply;

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use serde::Serialize;

use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::streamed::Streamed;
use crate::domain::trace::Trace;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::headers::idempotency_key;
use crate::http::extract::large_body::LargeJsonBody;
use crate::http::extract::path::SessionPath;
use crate::http::run_response::{Delivery, FollowedRun, PreferWait, ResumedStream, RunResponse};
use crate::http::state::Api;
use crate::service::answers::AnsweredRun;
use crate::service::client_events::EventResult;
use crate::service::deadline::in_time;
use crate::service::lookup::find_run;
use crate::service::messages::PostedRun;
use crate::service::offload::offload;
use apply::{AppliedBatch, EventBatch};
use body::CreateEvents;
use reply::{AppliedEvents, EventsReply};

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
/// `Accept: text/event-stream` and `Prefer: wait=N` have the effect that they have on a message, for
/// the run of the message, otherwise of the last decision or result, otherwise of the last stopped
/// run. The response after a wait has the results and the run.
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
        PreferWait, ResumedStream,
    ),
    request_body = CreateEvents,
    responses(
        (status = 200, description = "The result of each event, in order; or the stream of the run.",
         content((AppliedEvents = "application/json"), (Streamed<'static> = "text/event-stream"),
                 (Streamed<'static> = "application/jsonl"), (Streamed<'static> = "application/x-ndjson")),
         headers(("location" = Option<String>, description = "The path of the stream."),
                 ("content-location" = Option<String>, description = "The path of the run that is streamed."),
                 ("preference-applied" = Option<String>, description = "`wait=N` if the run has settled or waits for the client, `respond-async, wait=N` if the response has waited N seconds for it."),
                 ("idempotency-replayed" = String, description = "`true` for a repeated request."))),
        (status = 400, description = "`bad_json`, `body_incomplete`, `invalid_cursor`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`, `approval_not_found`, `tool_call_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 406, description = "`not_acceptable`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`already_resolved`, `call_not_waiting`; of the message: `queue_full`, `session_busy`, `action_required`, `session_archived`", body = Problem, content_type = "application/problem+json"),
        (status = 410, description = "`approval_expired`, `tool_result_expired`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`, `idempotency_key_reused`", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "`overloaded`: too many runs are queued over all sessions; `rate_limited`: the key has sent too many requests. `Retry-After` is the time after which to retry.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_streams`, `too_many_waits`, `too_many_large_bodies`", body = Problem, content_type = "application/problem+json"),
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
    let parsed = offload(body_permits.bytes(), move || events.parse()).await??;
    let idempotency_key = idempotency_key(&headers)?.map(str::to_owned);
    // Before an event is applied.
    let delivery = Delivery::of(&api, &caller, &headers)?;
    let subscription = api.service.bus.subscribe(session_id);
    let tenant = caller.tenant;
    let kinds = parsed.kinds.clone();
    let batch = EventBatch { tenant, session_id, trace, idempotency_key, events: parsed };
    let AppliedBatch { steps, posted } = match batch.apply(&api).await? {
        Ok(applied) => applied,
        Err(refused) => return Ok(refused),
    };
    drop(body_permits);
    let is_repeated = posted.as_ref().is_some_and(|posted| posted.is_repeated);
    let data = applied(&kinds, steps.as_deref(), posted.as_ref());
    let followed = followed_run(&api, tenant, session_id, steps, posted).await?;
    let response = RunResponse { api: &api, tenant, headers: &headers };
    let reply = EventsReply { data, is_repeated, followed };
    reply.deliver(&response, subscription, delivery).await
}

/// The run that the last event concerns: of the message, of the last decision or result, or the last
/// stopped one.
async fn followed_run(
    api: &Api,
    tenant: TenantId,
    session_id: SessionId,
    steps: Option<Vec<EventResult>>,
    posted: Option<PostedRun>,
) -> Result<Option<FollowedRun>, ApiError> {
    if let Some(posted) = posted {
        return Ok(Some(posted.into()));
    }
    let mut latest = steps.unwrap_or_default().into_iter().rev();
    let last = latest.find_map(|step| Some((*step.run_ids.last()?, step)));
    let Some((run_id, EventResult { is_repeated, events, .. })) = last else { return Ok(None) };
    let run = in_time(find_run(&api.service, tenant, session_id, run_id)).await?;
    Ok(Some(AnsweredRun { run, is_repeated, events }.into()))
}

/// The result of each event. If the message was accepted before, so were the events before it, and
/// their runs are not known here.
fn applied(
    kinds: &[&'static str],
    steps: Option<&[EventResult]>,
    message: Option<&PostedRun>,
) -> Vec<AppliedEvent> {
    let before = kinds.len() - usize::from(message.is_some());
    let steps: Vec<(Vec<RunId>, bool)> = match steps {
        Some(steps) => steps.iter().map(|it| (it.run_ids.clone(), it.is_repeated)).collect(),
        None => vec![(Vec::new(), true); before],
    };
    let message = message.map(|posted| (vec![posted.run.id], posted.is_repeated));
    let event = |(kind, (run_ids, repeated)): (&&'static str, (Vec<RunId>, bool))| AppliedEvent {
        r#type: kind,
        repeated,
        run_ids,
    };
    kinds.iter().zip(steps.into_iter().chain(message)).map(event).collect()
}
