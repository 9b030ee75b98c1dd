//! Forks: sessions that continue from a message of another session.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, Uri};
use serde::Deserialize;

use super::response::created_response;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::headers::idempotency_key;
use crate::http::extract::json_body::OptionalJsonBody;
use crate::http::extract::path::SessionPath;
use crate::http::extract::query::Params;
use crate::http::resources::{Page, SessionResource};
use crate::http::routes::paging::{Order, page_request, respond};
use crate::http::state::Api;
use crate::service::sessions::fork::{self, CreateFork, ForkSource};
use crate::service::sessions::list_forks as list;

/// Forks a session: creates a session that has its history up to a message and continues from there.
///
/// The history is shared, not copied. Messages that are added to one of the two sessions do not
/// appear in the other. The pinned settings are those of the source; the todo list, the permission
/// mode and the remembered rules are those that the source has now. The usage begins at zero, with
/// the same budget. If the source has a directory of its own, its files are copied; a directory that
/// a client or the operator named is shared.
///
/// If the last message calls tools, the fork answers the calls with a message of its own: as
/// interrupted, or as cancelled if a call certainly did not run. An active run of the source
/// continues.
///
/// To edit a message, fork `before` it and post the new message to the fork.
#[utoipa::path(
    post, path = "/sessions/{session_id}/forks", operation_id = "create_fork", tag = "sessions",
    params(
        ("session_id" = String, Path, description = "The id of the session to fork."),
        ("Idempotency-Key" = Option<String>, Header,
         description = "A key for safe repetition. A second request to this session with the same \
            key and body returns the same fork; with another body it fails with 422. A key is kept \
            as long as the fork."),
    ),
    request_body = Option<CreateFork>,
    responses(
        (status = 201, description = "The fork.", body = SessionResource,
         headers(("location" = String, description = "The path of the fork."),
                 ("etag" = String, description = "The version of the fork."),
                 ("idempotency-replayed" = String, description = "`true` for a repeated request."))),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`, `idempotency_key_reused`; `workspace_too_large`: more than 256 MiB, 10,000 files or 100 levels", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "`quota_exceeded`: the tenant has the maximum number of sessions; `rate_limited`: the key has sent too many requests.", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`: the tenant stores the maximum number of bytes; `quota` names the resource.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`database_unavailable`, `too_many_copies`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_fork(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    headers: HeaderMap,
    body: OptionalJsonBody<CreateFork>,
) -> Result<Response, ApiError> {
    let SessionPath(session_id) = path;
    let OptionalJsonBody(request) = body;
    request.check()?;
    let key = idempotency_key(&headers)?;
    let source = ForkSource { tenant: caller.tenant, session_id, key, passed_on: None };
    let created = fork::create_fork(&api.service, source, request).await?;
    Ok(created_response(&api, &caller, created))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ListForks {
    /// Maximum number of items, 1 to 200.
    limit: Option<i64>,
    /// Returns the page after this session: the `next_cursor` of the previous page.
    after: Option<String>,
    /// Returns the page before this session.
    before: Option<String>,
    /// The order: `desc`, newest first, or `asc`. When absent, `desc`.
    #[param(inline)]
    order: Option<Order>,
}

/// Lists the forks of a session, by default newest first. Forks of forks are left out. Long system
/// prompts are truncated: see `truncated`.
#[utoipa::path(
    get, path = "/sessions/{session_id}/forks", operation_id = "list_forks", tag = "sessions",
    params(("session_id" = String, Path, description = "The id of the session."), ListForks),
    responses(
        (status = 200, description = "A page of sessions.", body = Page<SessionResource>,
         headers(("link" = String, description = "Links to the `next` and `prev` page (RFC 8288)."))),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_forks(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    query: Params<ListForks>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let SessionPath(source) = path;
    let Params(ListForks { limit, after, before, order }) = query;
    let request = page_request(limit, after, before, order.unwrap_or(Order::Desc))?;
    let page = list(&api.service, caller.tenant, source, request).await?;
    let resource = |fork| SessionResource::in_list(fork, &api.service.permissions);
    Ok(respond(page.map(resource), &uri))
}
