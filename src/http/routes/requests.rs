//! The exact requests of a run.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::Uri;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;

use super::paging::{Order, page_request, respond as respond_page};
use super::runs::known_run;
use crate::domain::attempt::Attempt;
use crate::domain::ids::{RunId, SessionId};
use crate::domain::page::Slice;
use crate::domain::prefix::PrefixHashes;
use crate::domain::request::{RequestForm, StoredRequest, hexadecimal};
use crate::domain::run::RunError;
use crate::domain::usage::Usage;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::path::{RequestPath, RunPath};
use crate::http::extract::query::Params;
use crate::http::resources::Page;
use crate::http::state::Api;
use crate::service::Error;
use crate::store::requests::{Filter, list, material};

/// A request to the model that has ended.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct RequestResource {
    /// `request`.
    r#type: &'static str,
    /// The session.
    #[schema(value_type = String)]
    session_id: SessionId,
    /// The run.
    #[schema(value_type = String)]
    run_id: RunId,
    /// Its number in the run, from 1.
    n: i32,
    /// The attempt of the run that sent it.
    attempt: i32,
    /// The model that was asked.
    model: String,
    /// The last message of the history that it carried.
    message_seq: i32,
    /// What else varied.
    form: RequestForm,
    /// SHA-256 of the body, in hexadecimal digits.
    body_sha256: String,
    /// Bytes of the body.
    body_bytes: i64,
    /// Hashes over the parts that a later request repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<PrefixHashes>,
    /// Its tries, as far as they were kept.
    attempts: Vec<Attempt>,
    /// Why the model stopped, in its own word; absent if there was no reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<String>,
    /// Why there was no reply; absent too if the run was stopped meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<RunError>,
    /// What it used.
    usage: Usage,
    /// What it cost, in micro-dollars; absent where no price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<i64>,
    /// When it was first sent.
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// When it ended.
    #[schema(value_type = String, format = DateTime)]
    ended_at: Timestamp,
    /// From the first try to the end of the last.
    duration_ms: i64,
    /// The body as it was sent, byte for byte. Keys are not in a body. Null where this version of
    /// the service does not make the same bytes any more: then no others are shown in their place.
    /// Absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    body: Option<Box<RawValue>>,
}

impl RequestResource {
    fn new(session_id: SessionId, run_id: RunId, stored: StoredRequest) -> Self {
        let StoredRequest { n, attempt, record, started_at, ended_at } = stored;
        Self {
            r#type: "request",
            session_id,
            run_id,
            n,
            attempt,
            model: record.model,
            message_seq: record.message_seq,
            form: record.form,
            body_sha256: record.body_hash,
            body_bytes: record.body_length,
            prefix: record.prefix,
            attempts: record.attempts,
            stop_reason: record.stop_reason,
            error: record.error,
            usage: record.usage,
            cost: record.cost,
            started_at,
            ended_at,
            duration_ms: record.duration_ms,
            body: None,
        }
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ListRequests {
    /// Items of the page, 1 to 200.
    limit: Option<i64>,
    /// Only requests behind this one: the `next_cursor` of the page before.
    after: Option<String>,
    /// Only requests before this one; the page is the last one before it.
    before: Option<String>,
    /// `asc`, which is meant where it is absent, or `desc`, newest first.
    #[param(inline)]
    order: Option<Order>,
}

/// Lists the requests to the model that a run has made, failed ones included, without their bodies.
#[utoipa::path(
    get, path = "/sessions/{session_id}/runs/{run_id}/requests", operation_id = "list_requests", tag = "runs",
    params(("session_id" = String, Path, description = "The session."),
           ("run_id" = String, Path, description = "The run."), ListRequests),
    responses(
        (status = 200, description = "A page of requests.", body = Page<RequestResource>,
         headers(("link" = String, description = "Its neighbours: `next` and `prev` (RFC 8288)."))),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`, `run_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_requests(
    State(api): State<Api>,
    caller: Caller,
    path: RunPath,
    query: Params<ListRequests>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let RunPath(session_id, run_id) = path;
    let Params(ListRequests { limit, after, before, order }) = query;
    let asked = page_request(limit, after, before, order.unwrap_or(Order::Asc))?;
    known_run(&api, caller.tenant, session_id, run_id).await?;
    let filter = |slice| Filter { tenant: caller.tenant, session_id, run_id, slice };
    let mut conn = api.pool.acquire_as(caller.tenant).await?;
    let requests = list(&mut conn, filter(asked.slice())).await?;
    let mut page = asked.page(requests, |request| request.n);
    if let Some(back) = page.slice_before() {
        page.set_has_previous(!list(&mut conn, filter(back)).await?.is_empty());
    }
    conn.give_back();
    let resource = |stored| RequestResource::new(session_id, run_id, stored);
    Ok(respond_page(page.map(resource), &uri))
}

/// Reads one request to the model, with its body as it was sent.
///
/// The body is made again from what is stored, and shown only if its hash is the one that was
/// recorded. The work grows with the history.
#[utoipa::path(
    get, path = "/sessions/{session_id}/runs/{run_id}/requests/{n}", operation_id = "get_request", tag = "runs",
    params(("session_id" = String, Path, description = "The session."),
           ("run_id" = String, Path, description = "The run."),
           ("n" = i32, Path, description = "The request's number in the run.")),
    responses(
        (status = 200, description = "The request.", body = RequestResource),
        (status = 404, description = "`session_not_found`, `run_not_found`, `request_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_request(
    State(api): State<Api>,
    caller: Caller,
    path: RequestPath,
) -> Result<Json<RequestResource>, ApiError> {
    let RequestPath(session_id, run_id, n) = path;
    known_run(&api, caller.tenant, session_id, run_id).await?;
    let slice = Slice { from: Some(n.saturating_sub(1)), is_upwards: true, limit: 1 };
    let filter = Filter { tenant: caller.tenant, session_id, run_id, slice };
    let mut conn = api.pool.acquire_as(caller.tenant).await?;
    let found = list(&mut conn, filter).await?.pop().filter(|request| request.n == n);
    let request = found.ok_or_else(|| ApiError::Service(Error::RequestNotFound(n.to_string())))?;
    let seq = request.record.message_seq;
    let form = request.record.form.clone();
    let material = material(&mut conn, (session_id, run_id), seq, &form).await?;
    conn.give_back();
    let mut resource = RequestResource::new(session_id, run_id, request);
    let material =
        material.ok_or_else(|| ApiError::Service(Error::RunNotFound(run_id.to_string())))?;
    let assemble = api.service.assemble;
    // A long history takes a while.
    let made = spawn_blocking(move || {
        let body = assemble(&material, &form)?;
        let hash = hexadecimal(&Sha256::digest(&body));
        Ok::<_, serde_json::Error>((serde_json::from_slice::<Box<RawValue>>(&body)?, hash))
    });
    let made = made.await.map_err(|error| ApiError::Internal(error.to_string()))?;
    let (body, hash) = made.map_err(|error| ApiError::Internal(error.to_string()))?;
    let is_same = hash == resource.body_sha256;
    resource.body = Some(if is_same { body } else { RawValue::NULL.to_owned() });
    Ok(Json(resource))
}
