//! Sessions.

mod create;
mod delete;
mod export;
mod forks;
mod import;
mod list;
mod list_query;
mod response;
mod stream;
mod tickets;
mod update;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;

use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::conditions::unless_known;
use crate::http::extract::path::SessionPath;
use crate::http::resources::SessionResource;
use crate::http::state::Api;
use crate::service::sessions::find_session;
use response::session_resource;

pub(in crate::http) use create::*;
pub(in crate::http) use delete::*;
pub(in crate::http) use export::*;
pub(in crate::http) use forks::*;
pub(in crate::http) use import::*;
pub(in crate::http) use list::*;
pub(in crate::http) use stream::*;
pub(in crate::http) use tickets::*;
pub(in crate::http) use update::*;

/// Retrieves a session.
#[utoipa::path(
    get, path = "/sessions/{session_id}", operation_id = "get_session", tag = "sessions",
    params(
        ("session_id" = String, Path, description = "The id of the session."),
        ("If-None-Match" = Option<String>, Header,
         description = "An `ETag` of the session. If it is the current one, the response is 304."),
    ),
    responses(
        (status = 200, description = "The session.", body = SessionResource,
         headers(("etag" = String, description = "The version of the session."))),
        (status = 304, description = "The session has the version that the client knows.",
         headers(("etag" = String, description = "The version of the session."))),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_session(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let SessionPath(id) = path;
    let session = find_session(&api.service, caller.tenant, id).await?;
    Ok(unless_known(&headers, session.last_seq, || Json(session_resource(&api, &caller, session))))
}
