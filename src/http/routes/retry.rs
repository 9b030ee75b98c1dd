//! Retrying a run that failed or was cancelled.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};

use crate::domain::streamed::Streamed;
use crate::domain::trace::Trace;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::conditions::expected;
use crate::http::extract::headers::idempotency_key;
use crate::http::extract::path::RunPath;
use crate::http::resources::RunResource;
use crate::http::run_response::{Delivery, PreferWait, ResumedStream, RunResponse};
use crate::http::state::Api;
use crate::service::Error;
use crate::service::deadline::in_time;
use crate::service::messages::{self, RetryRun};

/// Retries a run that failed or was cancelled: posts its message again.
///
/// The run must be the newest one of its session. The response is that of a posted message: the new
/// run, its stream with `Accept: text/event-stream`, or the settled run with `Prefer: wait=N`. The new
/// run has the limits and tools of the first one.
///
/// If the message has entered the history, its images, documents and search results are not repeated.
///
/// An `Idempotency-Key` makes the request safe to repeat: a second request returns the same run.
#[utoipa::path(
    post, path = "/sessions/{session_id}/runs/{run_id}/retry", operation_id = "retry_run", tag = "runs",
    params(
        ("session_id" = String, Path, description = "The session."),
        ("run_id" = String, Path, description = "The run that failed or was cancelled."),
        PreferWait, ResumedStream,
        ("Idempotency-Key" = Option<String>, Header,
         description = "A second request with the same key returns the same run. Valid as long as the \
            session exists."),
        ("If-Match" = Option<String>, Header,
         description = "The session's `ETag`: 412 if the session has changed since. It has no effect \
            on a repeated request."),
    ),
    responses(
        (status = 202, description = "The new run, accepted.", body = RunResource,
         headers(("location" = String, description = "The run's path."),
                 ("preference-applied" = Option<String>, description = "`respond-async` if the request prefers it; `respond-async, wait=N` if the response has waited N seconds for the run."),
                 ("idempotency-replayed" = Option<String>, description = "`true` for a repeated request."))),
        (status = 200, description = "The new run, settled or waiting for the client; or the stream of its events.",
         content((RunResource = "application/json"), (Streamed<'static> = "text/event-stream"),
                 (Streamed<'static> = "application/jsonl"), (Streamed<'static> = "application/x-ndjson")),
         headers(("location" = Option<String>, description = "The path of the stream."),
                 ("content-location" = String, description = "The run's path."),
                 ("preference-applied" = Option<String>, description = "`wait=N`, if the response is the run."),
                 ("idempotency-replayed" = Option<String>, description = "`true` for a repeated request."))),
        (status = 400, description = "`invalid_cursor`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`, `run_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 406, description = "`not_acceptable`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`run_not_retryable`: the run has completed, or a newer run has followed it; `session_busy` and `action_required`, with `active_run_id`; `session_archived`", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "`version_mismatch`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`, `idempotency_key_reused`", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "`overloaded`: too many runs are queued over all sessions; `rate_limited`: the key has sent too many requests. `Retry-After` is the time after which to retry.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_streams`, `too_many_waits`", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`: the tenant stores the maximum number of bytes; `quota` names the resource.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn retry_run(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: RunPath,
    trace: Extension<Trace>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let RunPath(session_id, run_id) = path;
    if api.draining.is_cancelled() {
        return Err(Error::Draining.into());
    }
    // Before the message is accepted: a request that gets no stream must not have started a run, and
    // the stream must have the first events of the run.
    let delivery = Delivery::of(&api, &caller, &headers)?;
    let subscription = api.service.bus.subscribe(session_id);
    let Extension(trace) = trace;
    let request = RetryRun {
        tenant: caller.tenant,
        session_id,
        run_id,
        idempotency_key: idempotency_key(&headers)?.map(str::to_owned),
        versions: expected(&headers),
        trace,
    };
    // Boxed, because the future is large.
    let posted = Box::pin(in_time(messages::retry_run(&api.service, &request))).await?;
    let response = RunResponse { api: &api, tenant: caller.tenant, headers: &headers };
    response.deliver(posted.into(), subscription, delivery, StatusCode::ACCEPTED).await
}
