//! The todo list that the model keeps.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use serde::Serialize;
use sqlx::PgConnection;

use crate::domain::state_change::Todo;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::conditions::{etag, not_modified};
use crate::http::extract::path::SessionPath;
use crate::http::state::Api;
use crate::service::Error;
use crate::store::sessions::find_todos;

/// The todo list, as the model last wrote it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct TodoList {
    /// The items, in the model's order.
    todos: Vec<Todo>,
}

/// Reads the todo list of a session. It is empty until the model writes one.
#[utoipa::path(
    get, path = "/sessions/{session_id}/todos", operation_id = "get_todos", tag = "sessions",
    params(
        ("session_id" = String, Path, description = "The session."),
        ("If-None-Match" = Option<String>, Header,
         description = "An `ETag` of the session: 304 if the session has not changed since."),
    ),
    responses(
        (status = 200, description = "The list.", body = TodoList,
         headers(("etag" = String, description = "The session's version."))),
        (status = 304, description = "The session has not changed.",
         headers(("etag" = String, description = "The session's version."))),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_todos(
    State(api): State<Api>,
    caller: Caller,
    path: SessionPath,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let SessionPath(id) = path;
    let tenant = caller.tenant;
    let find = async |conn: &mut PgConnection| find_todos(conn, tenant, id).await;
    let found = api.service.pool.with(tenant, find).await?;
    let (todos, last_seq) =
        found.ok_or_else(|| ApiError::Service(Error::SessionNotFound(id.to_string())))?;
    if let Some(status) = not_modified(&headers, last_seq) {
        return Ok((status, etag(last_seq)).into_response());
    }
    Ok((etag(last_seq), Json(TodoList { todos })).into_response())
}
