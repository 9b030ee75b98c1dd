//! Runs: reading them, following them, stopping them.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, Uri};
use serde::Deserialize;
use sqlx::{Connection as _, PgConnection};

use super::events::{StreamEvents, StreamHeaders};
use super::paging::{Order, page_request, respond as respond_page};
use crate::domain::event::Streamed;
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::page::Slice;
use crate::domain::run::{Run, RunStatus};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::headers::resume_after;
use crate::http::extract::path::{RunPath, SessionPath};
use crate::http::extract::query::Params;
use crate::http::resources::{Page, RunResource};
use crate::http::state::Api;
use crate::http::stream::event_types::{EventTypes, TypedParams};
use crate::http::stream::form::StreamForm;
use crate::http::stream::sse::{Follow, Phase, respond};
use crate::service::Error;
use crate::service::cancel::StopRequest;
use crate::service::lookup::{check_reached, newest_event};
use crate::store::StoreError;
use crate::store::events::{Range, list as list_events};
use crate::store::runs::{Filter, find, list};

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ListRuns {
    /// Items of the page, 1 to 200.
    limit: Option<i64>,
    /// Only runs behind this one: the `next_cursor` of the page before.
    after: Option<String>,
    /// Only runs before this one; the page is the last one before it.
    before: Option<String>,
    /// `asc`, which is meant where it is absent, or `desc`, newest first.
    #[param(inline)]
    order: Option<Order>,
    /// Only runs that stand here.
    status: Option<RunStatus>,
}

/// Lists the runs of a session, oldest first unless `order` says otherwise.
#[utoipa::path(
    get, path = "/sessions/{session_id}/runs", operation_id = "list_runs", tag = "runs",
    params(("session_id" = String, Path, description = "The session."), ListRuns),
    responses(
        (status = 200, description = "A page of runs.", body = Page<RunResource>,
         headers(("link" = String, description = "Its neighbours: `next` and `prev` (RFC 8288)."))),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_runs(
    State(api): State<Api>,
    caller: Caller,
    path: SessionPath,
    query: Params<ListRuns>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let SessionPath(session_id) = path;
    let Params(ListRuns { limit, after, before, order, status }) = query;
    let asked = page_request(limit, after, before, order.unwrap_or(Order::Asc))?;
    newest_event(&api.service, caller.tenant, session_id).await?;
    let tenant = caller.tenant;
    let filter = |slice| Filter { tenant, session_id, only: None, status, slice };
    let mut conn = api.pool.acquire_as(caller.tenant).await?;
    let runs = list(&mut conn, filter(asked.slice())).await?;
    let mut page = asked.page(runs, |run| run.accepted_seq);
    if let Some(back) = page.slice_before() {
        page.set_has_previous(!list(&mut conn, filter(back)).await?.is_empty());
    }
    conn.give_back();
    Ok(respond_page(page.map(RunResource::from), &uri))
}

/// Finds a run, or that it or its session does not exist.
pub(super) async fn known_run(
    api: &Api,
    tenant: TenantId,
    session_id: SessionId,
    run_id: RunId,
) -> Result<Run, ApiError> {
    let mut conn = api.pool.acquire_as(tenant).await?;
    let run = find(&mut conn, tenant, session_id, run_id).await?;
    conn.give_back();
    if let Some(run) = run {
        return Ok(run);
    }
    newest_event(&api.service, tenant, session_id).await?;
    Err(ApiError::Service(Error::RunNotFound(run_id.to_string())))
}

/// Reads a run.
#[utoipa::path(
    get, path = "/sessions/{session_id}/runs/{run_id}", operation_id = "get_run", tag = "runs",
    params(("session_id" = String, Path, description = "The session."),
           ("run_id" = String, Path, description = "The run.")),
    responses(
        (status = 200, description = "The run.", body = RunResource),
        (status = 404, description = "`session_not_found`, `run_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_run(
    State(api): State<Api>,
    caller: Caller,
    path: RunPath,
) -> Result<Json<RunResource>, ApiError> {
    let RunPath(session_id, run_id) = path;
    Ok(Json(known_run(&api, caller.tenant, session_id, run_id).await?.into()))
}

/// Streams the events of one run until it rests: settled, or waiting for somebody.
///
/// 204 when the run has settled and the client has seen all of it: an `EventSource` then stops
/// coming back.
#[utoipa::path(
    get, path = "/sessions/{session_id}/runs/{run_id}/stream", operation_id = "stream_run", tag = "runs",
    params(("session_id" = String, Path, description = "The session."),
           ("run_id" = String, Path, description = "The run."), StreamEvents, StreamHeaders),
    responses(
        (status = 200, description = "The stream; the schema is that of one event's `data`, or of one line.",
         content((Streamed<'static> = "text/event-stream"), (Streamed<'static> = "application/jsonl"),
                 (Streamed<'static> = "application/x-ndjson"))),
        (status = 204, description = "Nothing is left to stream."),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`, `run_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 406, description = "`not_acceptable`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`too_many_streams`, `draining`, `database_unavailable`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn stream_run(
    State(api): State<Api>,
    caller: Caller,
    path: RunPath,
    query: TypedParams<StreamEvents>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let RunPath(session_id, run_id) = path;
    let TypedParams(StreamEvents { after, deltas, types }) = query;
    let form = StreamForm::of(&headers)?;
    let after = resume_after(&headers, after)?;
    // Before the run is looked at: what it does from now on is not missed.
    let subscription = api.bus.subscribe(session_id);
    let run = known_run(&api, caller.tenant, session_id, run_id).await?;
    if after > 0 {
        check_reached(&api.service, caller.tenant, session_id, after).await?;
    }
    let after = after.max(run.accepted_seq - 1);
    if is_over(&api, caller.tenant, &run, after).await? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let follow = Follow {
        tenant: caller.tenant,
        session_id,
        run_id: Some(run_id),
        after,
        deltas: deltas.unwrap_or(true),
        types: EventTypes::of(types.as_deref()),
        begins: Phase::Backlog,
        form,
    };
    Ok(respond(&api, follow, subscription, api.stream_permit(caller)?))
}

/// Whether a run has settled and has no event after this one.
pub(super) async fn is_over(
    api: &Api,
    tenant: TenantId,
    run: &Run,
    after: i64,
) -> Result<bool, ApiError> {
    if !run.status.is_terminal() {
        return Ok(false);
    }
    let range = Range { session_id: run.session_id, run_id: Some(run.id), after, limit: 1 };
    let mut conn = api.pool.acquire_as(tenant).await?;
    let is_over = list_events(&mut conn, range).await?.is_empty();
    conn.give_back();
    Ok(is_over)
}

/// Asks for a run to be cancelled. Asking twice is the same as asking once.
#[utoipa::path(
    post, path = "/sessions/{session_id}/runs/{run_id}/cancel", operation_id = "cancel_run", tag = "runs",
    params(("session_id" = String, Path, description = "The session."),
           ("run_id" = String, Path, description = "The run.")),
    responses(
        (status = 202, description = "The worker has been asked to stop.", body = RunResource),
        (status = 200, description = "The run has settled.", body = RunResource),
        (status = 404, description = "`session_not_found`, `run_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn cancel_run(
    State(api): State<Api>,
    caller: Caller,
    path: RunPath,
) -> Result<Response, ApiError> {
    let RunPath(session_id, run_id) = path;
    let run = cancel(&api, caller.tenant, session_id, run_id).await?;
    let status = if run.status.is_terminal() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(RunResource::from(run))).into_response())
}

/// Asks for all that a session does and has waiting to be cancelled.
#[utoipa::path(
    post, path = "/sessions/{session_id}/cancel", operation_id = "cancel_session", tag = "runs",
    params(("session_id" = String, Path, description = "The session.")),
    responses(
        (status = 202, description = "A worker has been asked to stop.", body = Page<RunResource>),
        (status = 200, description = "Nothing runs any more.", body = Page<RunResource>),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn cancel_session(
    State(api): State<Api>,
    caller: Caller,
    path: SessionPath,
) -> Result<Response, ApiError> {
    let SessionPath(session_id) = path;
    let tenant = caller.tenant;
    newest_event(&api.service, tenant, session_id).await?;
    let mut conn = api.pool.acquire_as(tenant).await?;
    let open = list_open(&mut conn, tenant, session_id).await?;
    conn.give_back();
    let mut data = Vec::new();
    for run_id in open {
        data.push(RunResource::from(cancel(&api, tenant, session_id, run_id).await?));
    }
    let is_done = data.iter().all(RunResource::is_settled);
    let status = if is_done { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(Page::whole(data))).into_response())
}

/// The runs of a session that have not settled, in the order in which they are to be stopped: those
/// that wait go first, or one of them would begin when the live one ends.
pub(super) async fn list_open(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
) -> Result<Vec<RunId>, StoreError> {
    let mut open = Vec::new();
    for status in [RunStatus::Queued, RunStatus::RequiresAction, RunStatus::Running] {
        let status = Some(status);
        let filter = Filter { tenant, session_id, only: None, status, slice: Slice::first(200) };
        open.extend(list(conn, filter).await?.into_iter().map(|run| run.id));
    }
    Ok(open)
}

async fn cancel(
    api: &Api,
    tenant: TenantId,
    session_id: SessionId,
    run_id: RunId,
) -> Result<Run, ApiError> {
    let run = known_run(api, tenant, session_id, run_id).await?;
    if run.status.is_terminal() {
        return Ok(run);
    }
    let mut conn = api.pool.acquire_as(tenant).await?;
    let mut transaction = conn.begin().await?;
    let stop = StopRequest::make(&mut transaction, tenant, session_id, run_id).await?;
    transaction.commit().await?;
    conn.give_back();
    stop.publish(&api.service);
    known_run(api, tenant, session_id, run_id).await
}
