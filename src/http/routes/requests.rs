//! The recorded model requests of a run.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::Uri;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::paging::{Order, page_request, respond as respond_page};
use crate::domain::ids::{RunId, SessionId};
use crate::domain::model_try::ModelTry;
use crate::domain::outcome::RunError;
use crate::domain::prefix::PrefixHashes;
use crate::domain::request::{RequestForm, StoredRequest};
use crate::domain::usage::Usage;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::path::{RequestPath, RunPath};
use crate::http::extract::query::Params;
use crate::http::resources::Page;
use crate::http::state::Api;
use crate::service::model_requests::{list_model_requests, read_model_request};

/// A finished model request.
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
    /// The number of the request in the run, from 1.
    n: i32,
    /// The attempt of the run that sent the request.
    attempt: i32,
    /// The model.
    model: String,
    /// The number of the last message in the request.
    message_seq: i32,
    /// The parameters that vary between the requests of a run.
    form: RequestForm,
    /// The SHA-256 hash of the body, in hexadecimal.
    body_sha256: String,
    /// The size of the body, in bytes.
    body_bytes: i64,
    /// Hashes of the parts that later requests repeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<PrefixHashes>,
    /// The HTTP requests that were sent, as far as they were recorded.
    attempts: Vec<ModelTry>,
    /// The model's stop reason; absent if there was no reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<String>,
    /// The reason why there was no reply; absent if the run was stopped meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<RunError>,
    /// The usage of all HTTP requests that were sent.
    usage: Usage,
    /// True if the usage includes HTTP requests that ended without a complete reply: of these, the
    /// counts that the model's server had not reported are estimated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    usage_estimated: bool,
    /// The cost, in micro-dollars; absent if the model has no known price.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<i64>,
    /// The time at which it was first sent.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    started_at: Timestamp,
    /// The time at which it ended.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    ended_at: Timestamp,
    /// The time from the first HTTP request to the end of the last, in milliseconds.
    duration_ms: i64,
    /// The body exactly as it was sent, without API keys, which are in headers. Null if this version
    /// of the service can no longer generate the same bytes. Absent in lists.
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
            usage_estimated: record.usage_estimated,
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
    /// The number of items per page, 1 to 200; 50 by default.
    limit: Option<i64>,
    /// Only requests after this cursor: the `next_cursor` of another page.
    after: Option<String>,
    /// Only requests before this cursor; the page ends there.
    before: Option<String>,
    /// `asc`, oldest first, the default; or `desc`, newest first.
    #[param(inline)]
    order: Option<Order>,
}

/// Lists the model requests of a run, including failed ones, without their bodies.
#[utoipa::path(
    get, path = "/sessions/{session_id}/runs/{run_id}/requests", operation_id = "list_requests", tag = "runs",
    params(("session_id" = String, Path, description = "The session."),
           ("run_id" = String, Path, description = "The run."), ListRequests),
    responses(
        (status = 200, description = "A page of requests.", body = Page<RequestResource>,
         headers(("link" = String, description = "Links to the next and the previous page (RFC 8288): `next`, `prev`."))),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`, `run_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_requests(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: RunPath,
    query: Params<ListRequests>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let RunPath(session_id, run_id) = path;
    let Params(ListRequests { limit, after, before, order }) = query;
    let request = page_request(limit, after, before, order.unwrap_or(Order::Asc))?;
    let read = list_model_requests(&api.service, caller.tenant, session_id, run_id, request);
    let page = read.await?;
    let resource = |stored| RequestResource::new(session_id, run_id, stored);
    Ok(respond_page(page.map(resource), &uri))
}

/// Reads one model request, with its body exactly as it was sent.
///
/// The body is regenerated from the history, and returned only if its hash equals the recorded one.
/// The duration grows with the history.
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
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: RequestPath,
) -> Result<Json<RequestResource>, ApiError> {
    let RequestPath(session_id, run_id, n) = path;
    let request = read_model_request(&api.service, caller.tenant, session_id, run_id, n).await?;
    let mut resource = RequestResource::new(session_id, run_id, request.stored);
    resource.body = Some(request.body);
    Ok(Json(resource))
}
