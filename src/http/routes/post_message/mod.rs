//! Posting a message, which starts a run: the response is the run, a stream, or the settled run.

mod body;

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};

use crate::domain::streamed::Streamed;
use crate::domain::trace::Trace;
use crate::faults::{self, Point};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::accept::ResponseFormat;
use crate::http::extract::conditions::expected;
use crate::http::extract::headers::idempotency_key;
use crate::http::extract::large_body::LargeJsonBody;
use crate::http::extract::path::SessionPath;
use crate::http::resources::RunResource;
use crate::http::run_response::{Delivery, RunResponse};
use crate::http::state::Api;
use crate::http::stream::format::StreamFormat;
use crate::service::Error;
use crate::service::deadline::in_time;
use crate::service::messages::{MessageInput, PostMessage, post_message};
use crate::service::offload::offload;
use crate::service::session_settings::check_mode;
use body::CreateMessage;

/// Posts a message, which starts a run or is queued after the active run of the session.
///
/// By default, the response is 202 with the run. With `Accept: text/event-stream`, the response is a
/// stream of the run's events until the run has settled or waits for the client
/// (`requires_action`); with `application/jsonl` or `application/x-ndjson`, each line of the stream
/// is one event. With `Prefer: wait=N`, the response is the run once it has settled or waits for the
/// client, if that happens within N seconds. Closing the connection does not stop the run.
///
/// Runs of a session start in the order in which their messages were accepted. `on_busy` sets the
/// effect of a message while a run is active or queued; an idle session accepts it in all modes.
///
/// A message may have images, documents and search results. They are checked before the message is
/// accepted, by themselves and together with those of the session. Events contain only their names;
/// the history contains them completely.
///
/// An `Idempotency-Key`, or an `id` in the body, makes the request safe to repeat: a second request
/// with the same body returns the same run, even if the session or the service is busy, and
/// interrupts nothing. Keys and ids are valid as long as the session exists.
#[utoipa::path(
    post, path = "/sessions/{session_id}/messages", operation_id = "create_message", tag = "messages",
    params(
        ("session_id" = String, Path, description = "The session."),
        ("Prefer" = Option<String>, Header, description = "`wait=N`: the response waits up to N \
            seconds, at most 120, for the run. `respond-async`, the default: it does not wait."),
        ("Idempotency-Key" = Option<String>, Header,
         description = "A second request to this session with the same key and body returns the same \
            run; with another body (`on_busy` included) 422. Valid as long as the session exists."),
        ("If-Match" = Option<String>, Header,
         description = "The session's `ETag`: 412 if the session has changed since. It has no effect \
            on a repeated request."),
        ("Last-Event-ID" = Option<String>, Header,
         description = "The last event that the client has seen, for the stream of a repeated request."),
    ),
    request_body = CreateMessage,
    responses(
        (status = 202, description = "The run, accepted.", body = RunResource,
         headers(("location" = String, description = "The run's path."),
                 ("preference-applied" = Option<String>, description = "`respond-async` if the request prefers it; `respond-async, wait=N` if the response has waited N seconds for the run."),
                 ("idempotency-replayed" = String, description = "`true` for a repeated request."))),
        (status = 200, description = "The run, settled or waiting for the client; or the stream of its events.",
         content((RunResource = "application/json"), (Streamed<'static> = "text/event-stream"),
                 (Streamed<'static> = "application/jsonl"), (Streamed<'static> = "application/x-ndjson")),
         headers(("location" = Option<String>, description = "The path of the stream."),
                 ("content-location" = String, description = "The run's path."),
                 ("preference-applied" = Option<String>, description = "`wait=N`, if the response is the run."),
                 ("idempotency-replayed" = Option<String>, description = "`true` for a repeated request."))),
        (status = 400, description = "`bad_json`, `body_incomplete`, `invalid_cursor`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 406, description = "`not_acceptable`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`queue_full`; `session_busy`, with `active_run_id` and `Retry-After`; `action_required`, with `active_run_id`; `session_archived`", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "`version_mismatch`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`, `idempotency_key_reused`", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "`overloaded`: too many runs are queued over all sessions; `rate_limited`: the key has sent too many requests. `Retry-After` is the time after which to retry.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_streams`, `too_many_waits`, `too_many_large_bodies`", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`: the tenant stores the maximum number of bytes; `quota` names the resource.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_message(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    trace: Extension<Trace>,
    headers: HeaderMap,
    body: LargeJsonBody<CreateMessage>,
) -> Result<Response, ApiError> {
    let SessionPath(session_id) = path;
    let LargeJsonBody(body, body_permits) = body;
    body.check_browser(&caller, api.service.on_busy)?;
    let streams = body.stream;
    if !streams {
        // Before the content is checked, which may take long.
        ResponseFormat::of(&headers)?;
    }
    let message =
        offload(body_permits.bytes(), move || MessageInput::from(body).validate()).await??;
    check_mode(&api.service, message.permission_mode)?;
    if api.draining.is_cancelled() {
        return Err(Error::Draining.into());
    }
    // Before the message is accepted: a request that gets no stream must not have started a run.
    let delivery = if streams {
        Delivery::stream(&api, &caller, StreamFormat::of(&headers).unwrap_or_default())?
    } else {
        Delivery::of(&api, &caller, &headers)?
    };
    // Before the message is accepted: the stream must have the first events of the run.
    let subscription = api.service.bus.subscribe(session_id);
    let Extension(trace) = trace;
    let request = PostMessage {
        tenant: caller.tenant,
        session_id,
        message,
        idempotency_key: idempotency_key(&headers)?.map(str::to_owned),
        versions: expected(&headers),
        trace,
        other_events: Vec::new(),
    };
    // Boxed, because the future is large.
    let posted = Box::pin(in_time(post_message(&api.service, &request))).await?;
    drop((request, body_permits));
    faults::point(Point::BeforeReply).await;
    let response = RunResponse { api: &api, tenant: caller.tenant, headers: &headers };
    response.deliver(posted.into(), subscription, delivery, StatusCode::ACCEPTED).await
}
