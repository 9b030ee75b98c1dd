//! Runs: listing, reading, streaming and cancelling them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, Uri};
use serde::Deserialize;

use super::events::{StreamEvents, StreamHeaders};
use super::paging::{Order, page_request, respond as respond_page};
use crate::domain::run_status::RunStatus;
use crate::domain::streamed::Streamed;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::headers::{RESPOND_ASYNC, prefers_no_wait, resume_after};
use crate::http::extract::path::{RunPath, SessionPath};
use crate::http::extract::query::Params;
use crate::http::resources::{Page, RunResource};
use crate::http::run_response::{
    AwaitedRun, Delivery, PreferWait, ResumedStream, RunResponse, empty_stream, set_preference,
};
use crate::http::state::Api;
use crate::http::stream::event_types::{EventTypes, TypedParams};
use crate::http::stream::format::StreamFormat;
use crate::http::stream::request::{StreamPhase, StreamRequest};
use crate::http::stream::response::respond;
use crate::service;
use crate::service::cancel::{cancel_run as request_cancel, cancel_session as request_cancel_all};
use crate::service::deadline::in_time;
use crate::service::lookup::{check_reached, find_run, has_ended};

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ListRuns {
    /// The number of items per page, 1 to 200; 50 by default.
    limit: Option<i64>,
    /// Only runs after this cursor: the `next_cursor` of another page.
    after: Option<String>,
    /// Only runs before this cursor; the page ends there.
    before: Option<String>,
    /// `asc`, oldest first, the default; or `desc`, newest first.
    #[param(inline)]
    order: Option<Order>,
    /// Only runs with this status.
    status: Option<RunStatus>,
}

/// Lists the runs of a session, oldest first by default.
#[utoipa::path(
    get, path = "/sessions/{session_id}/runs", operation_id = "list_runs", tag = "runs",
    params(("session_id" = String, Path, description = "The session."), ListRuns),
    responses(
        (status = 200, description = "A page of runs.", body = Page<RunResource>,
         headers(("link" = String, description = "Links to the next and the previous page (RFC 8288): `next`, `prev`."))),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_runs(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    query: Params<ListRuns>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let SessionPath(session_id) = path;
    let Params(ListRuns { limit, after, before, order, status }) = query;
    let request = page_request(limit, after, before, order.unwrap_or(Order::Asc))?;
    let page = service::runs::list_runs(&api.service, caller.tenant, session_id, status, request);
    let page = page.await?;
    Ok(respond_page(page.map(RunResource::from), &uri))
}

/// Reads a run.
///
/// With `Prefer: wait=N`, the response waits up to N seconds until the run has settled or waits for
/// the client.
#[utoipa::path(
    get, path = "/sessions/{session_id}/runs/{run_id}", operation_id = "get_run", tag = "runs",
    params(("session_id" = String, Path, description = "The session."),
           ("run_id" = String, Path, description = "The run."),
           ("Prefer" = Option<String>, Header, description = "`wait=N`: the response waits up to N \
               seconds, at most 120, for the run.")),
    responses(
        (status = 200, description = "The run.", body = RunResource,
         headers(("preference-applied" = Option<String>, description = "`wait=N`, if the response has waited."))),
        (status = 404, description = "`session_not_found`, `run_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_run(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: RunPath,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let RunPath(session_id, run_id) = path;
    let tenant = caller.tenant;
    let delivery = Delivery::json(&api, &caller, &headers)?;
    // Before the run is read: the event that ends the wait must not be missed.
    let subscription = api.service.bus.subscribe(session_id);
    let run = in_time(find_run(&api.service, tenant, session_id, run_id)).await?;
    let Delivery::Wait(seconds, _permit) = delivery else {
        return Ok(Json(RunResource::from(run)).into_response());
    };
    let response = RunResponse { api: &api, tenant, headers: &headers };
    let AwaitedRun { run, .. } = response.wait(run, subscription, seconds).await?;
    let mut response = Json(RunResource::from(run)).into_response();
    set_preference(&mut response, &format!("wait={seconds}"));
    Ok(response)
}

/// Streams the events of one run until it has settled or waits for the client.
///
/// 204 if the run has settled and the client has seen all its events; an `EventSource` then does not
/// reconnect.
#[utoipa::path(
    get, path = "/sessions/{session_id}/runs/{run_id}/stream", operation_id = "stream_run", tag = "runs",
    params(("session_id" = String, Path, description = "The session."),
           ("run_id" = String, Path, description = "The run."), StreamEvents, StreamHeaders),
    responses(
        (status = 200, description = "The stream. The schema describes the `data` of one event, or one line.",
         content((Streamed<'static> = "text/event-stream"), (Streamed<'static> = "application/jsonl"),
                 (Streamed<'static> = "application/x-ndjson"))),
        (status = 204, description = "There are no more events."),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`, `run_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 406, description = "`not_acceptable`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`too_many_streams`, `draining`, `database_unavailable`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn stream_run(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: RunPath,
    query: TypedParams<StreamEvents>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let RunPath(session_id, run_id) = path;
    let TypedParams(StreamEvents { after, deltas, types }) = query;
    let format = StreamFormat::of(&headers)?;
    let position = resume_after(&headers, after)?;
    let after = position.seq;
    // Before the run is read: later events must not be missed.
    let subscription = api.service.bus.subscribe(session_id);
    let run = find_run(&api.service, caller.tenant, session_id, run_id).await?;
    if after > 0 {
        check_reached(&api.service, caller.tenant, session_id, after, position.source()).await?;
    }
    let after = after.max(run.accepted_seq - 1);
    if has_ended(&api.service, caller.tenant, &run, after).await? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let request = StreamRequest {
        tenant: caller.tenant,
        session_id,
        run_id: Some(run_id),
        after,
        deltas: deltas.unwrap_or(true),
        types: EventTypes::of(types.as_deref()),
        first_phase: StreamPhase::Backlog,
        ends_if_waiting: false,
    };
    Ok(respond(&api, request, subscription, api.stream_permit(&caller)?, format))
}

/// Cancels a run. A second request has no further effect.
///
/// `Accept: text/event-stream` and `Prefer: wait=N` have the effect that they have on a message: the
/// response is a stream that begins with the event of the cancellation and ends when the run has
/// settled, or the run once that is so. The stream of a second request begins with the run.
#[utoipa::path(
    post, path = "/sessions/{session_id}/runs/{run_id}/cancel", operation_id = "cancel_run", tag = "runs",
    params(("session_id" = String, Path, description = "The session."),
           ("run_id" = String, Path, description = "The run."), PreferWait, ResumedStream),
    responses(
        (status = 202, description = "The run is being cancelled.", body = RunResource,
         headers(("location" = String, description = "The run's path."),
                 ("preference-applied" = Option<String>, description = "`respond-async, wait=N`, if the response has waited N seconds for the run."))),
        (status = 200, description = "The run has settled; or the stream of its events.",
         content((RunResource = "application/json"), (Streamed<'static> = "text/event-stream"),
                 (Streamed<'static> = "application/jsonl"), (Streamed<'static> = "application/x-ndjson")),
         headers(("location" = Option<String>, description = "The path of the stream."),
                 ("content-location" = String, description = "The run's path."),
                 ("preference-applied" = Option<String>, description = "`wait=N`, if the response has waited."))),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`, `run_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 406, description = "`not_acceptable`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_streams`, `too_many_waits`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn cancel_run(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: RunPath,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let RunPath(session_id, run_id) = path;
    let tenant = caller.tenant;
    // Before the cancellation takes effect.
    let delivery = Delivery::of(&api, &caller, &headers)?;
    let subscription = api.service.bus.subscribe(session_id);
    let stopped = request_cancel(&api.service, tenant, session_id, run_id).await?;
    let is_settled = stopped.run.status.is_terminal();
    let status = if is_settled { StatusCode::OK } else { StatusCode::ACCEPTED };
    let response = RunResponse { api: &api, tenant, headers: &headers };
    response.deliver(stopped.into(), subscription, delivery, status).await
}

/// Cancels all active and queued runs of a session.
///
/// A repeated request cancels the runs that are active or queued then, which may be newer ones. To
/// repeat a cancellation safely, cancel the run by its id.
///
/// With `Prefer: wait=N`, the response waits up to N seconds until all these runs have settled. With
/// `Accept: text/event-stream`, it is the stream of the run that was active.
#[utoipa::path(
    post, path = "/sessions/{session_id}/cancel", operation_id = "cancel_session", tag = "runs",
    params(("session_id" = String, Path, description = "The session."), PreferWait, ResumedStream),
    responses(
        (status = 202, description = "Runs are being cancelled.", body = Page<RunResource>,
         headers(("preference-applied" = Option<String>, description = "`respond-async, wait=N`, if the response has waited N seconds for the runs."))),
        (status = 200, description = "All runs have settled; or the stream of the run that was active, which is empty if there was none.",
         content((Page<RunResource> = "application/json"), (Streamed<'static> = "text/event-stream"),
                 (Streamed<'static> = "application/jsonl"), (Streamed<'static> = "application/x-ndjson")),
         headers(("location" = Option<String>, description = "The path of the stream."),
                 ("content-location" = Option<String>, description = "The path of the run that is streamed."),
                 ("preference-applied" = Option<String>, description = "`wait=N`, if the response has waited."))),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 406, description = "`not_acceptable`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_streams`, `too_many_waits`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn cancel_session(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let SessionPath(session_id) = path;
    let tenant = caller.tenant;
    // Before the cancellation takes effect.
    let delivery = Delivery::of(&api, &caller, &headers)?;
    let subscription = api.service.bus.subscribe(session_id);
    let mut stopped = request_cancel_all(&api.service, tenant, session_id).await?;
    let response = RunResponse { api: &api, tenant, headers: &headers };
    let (runs, preference) = match delivery {
        Delivery::Stream(format, permit) => {
            // The active run is stopped last.
            let Some(active) = stopped.pop() else { return Ok(empty_stream(format)) };
            return response.stream(&active.into(), subscription, format, permit).await;
        }
        Delivery::Wait(seconds, _permit) => {
            let runs = stopped.into_iter().map(|stopped| stopped.run).collect();
            let (runs, preference) = response.wait_for_all(runs, seconds).await?;
            (runs, Some(preference))
        }
        Delivery::Respond => {
            let preference = prefers_no_wait(&headers).then(|| RESPOND_ASYNC.to_owned());
            (stopped.into_iter().map(|stopped| stopped.run).collect(), preference)
        }
    };
    let data: Vec<RunResource> = runs.into_iter().map(RunResource::from).collect();
    let is_done = data.iter().all(RunResource::is_settled);
    let status = if is_done { StatusCode::OK } else { StatusCode::ACCEPTED };
    let mut response = (status, Json(Page::whole(data))).into_response();
    if let Some(preference) = preference {
        set_preference(&mut response, &preference);
    }
    Ok(response)
}
