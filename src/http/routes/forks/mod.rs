//! Forks: sessions that go on from a message of another one.

mod body;
mod files;
mod take;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::LOCATION;
use http::{HeaderMap, StatusCode, Uri};
use serde::Deserialize;

use super::known_session;
use super::paging::{Asked, Order};
use super::sessions::resource;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::headers::idempotency_key;
use crate::http::extract::idempotency::mark_repeated;
use crate::http::extract::json_body::OptionalJsonBody;
use crate::http::extract::path::SessionPath;
use crate::http::extract::query::Params;
use crate::http::resources::{Page, SessionResource};
use crate::http::server::forwarded::link;
use crate::http::state::Api;
use crate::store::sessions::list_forks as list;
use body::CreateFork;
use take::Forking;

/// Forks a session: makes a new one that has its history up to a message, and goes on from there.
///
/// The history is not copied, and neither session sees what is added to the other one. What the
/// source pinned is pinned; todo list, permission mode and remembered rules are as the source has
/// them now. Usage begins at zero, with the same budget. A folder of the source's own is copied as it
/// is now; one that somebody has named is shared.
///
/// If the last message asks for calls, the fork answers them with a message of its own: each as
/// interrupted, or cancelled if it surely did not run. A live run of the source goes on.
///
/// To edit a message, fork `before` it, and post the new one to the fork.
#[utoipa::path(
    post, path = "/sessions/{session_id}/forks", operation_id = "create_fork", tag = "sessions",
    params(
        ("session_id" = String, Path, description = "The session to be forked."),
        ("Idempotency-Key" = Option<String>, Header,
         description = "A second request to this session with the same key and body gives the same \
            fork; with another body 422. Kept as long as the fork."),
    ),
    request_body = Option<CreateFork>,
    responses(
        (status = 201, description = "The fork.", body = SessionResource,
         headers(("location" = String, description = "The fork's path."),
                 ("etag" = String, description = "Its version."),
                 ("idempotency-replayed" = String, description = "`true` for a repeated request."))),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`, `idempotency_key_reused`; `workspace_too_large`: more than 256 MiB, 10,000 files or 100 levels", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`database_unavailable`, `too_many_copies`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_fork(
    State(api): State<Api>,
    caller: Caller,
    path: SessionPath,
    headers: HeaderMap,
    body: OptionalJsonBody<CreateFork>,
) -> Result<Response, ApiError> {
    let SessionPath(source) = path;
    let OptionalJsonBody(wanted) = body;
    wanted.check()?;
    let forking = Forking {
        api: &api,
        tenant: caller.tenant,
        source,
        fingerprint: wanted.fingerprint()?,
        key: idempotency_key(&headers)?,
        wanted,
    };
    let (session, is_repeated) = forking.take().await?;
    let location = link(format_args!("/sessions/{}", session.id));
    let fork = resource(&api, session);
    let mut response = (StatusCode::CREATED, [(LOCATION, location)], fork).into_response();
    mark_repeated(&mut response, is_repeated);
    Ok(response)
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ListForks {
    /// Items of the page, 1 to 200.
    limit: Option<i64>,
    /// The page behind this session; the `next_cursor` of the page before.
    after: Option<String>,
    /// The page before this session.
    before: Option<String>,
    /// `desc` when absent: newest first.
    #[param(inline)]
    order: Option<Order>,
}

/// Lists the sessions that were forked from this one, newest first; not their own forks.
#[utoipa::path(
    get, path = "/sessions/{session_id}/forks", operation_id = "list_forks", tag = "sessions",
    params(("session_id" = String, Path, description = "The session."), ListForks),
    responses(
        (status = 200, description = "A page of sessions.", body = Page<SessionResource>,
         headers(("link" = String, description = "Its neighbours: `next` and `prev` (RFC 8288)."))),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_forks(
    State(api): State<Api>,
    caller: Caller,
    path: SessionPath,
    query: Params<ListForks>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let SessionPath(source) = path;
    let Params(ListForks { limit, after, before, order }) = query;
    let asked = Asked::read(limit, after, before, order.unwrap_or(Order::Desc))?;
    known_session(&api, caller.tenant, source).await?;
    let mut conn = api.pool.acquire_as(caller.tenant).await?;
    let forks = list(&mut conn, caller.tenant, source, asked.slice()).await?;
    let mut page = asked.page(forks, |fork| fork.id);
    if let Some(back) = page.back() {
        let found = list(&mut conn, caller.tenant, source, back).await?;
        page.goes_back(!found.is_empty());
    }
    conn.give_back();
    let resource = |fork| SessionResource::new(fork, &api.permissions);
    Ok(page.map(resource).respond(&uri))
}
