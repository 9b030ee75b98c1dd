//! The list that the model keeps of its work.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use serde::Serialize;

use crate::domain::note::Todo;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::conditions::{etag, not_modified};
use crate::http::extract::path::SessionPath;
use crate::http::state::Api;
use crate::service::Error;
use crate::store::sessions::find_todos;

/// The list as the model last wrote it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct TodoList {
    /// Its items, in the model's order.
    todos: Vec<Todo>,
}

/// Reads the todo list of a session. It is empty before the model has made one.
#[utoipa::path(
    get, path = "/sessions/{session_id}/todos", operation_id = "get_todos", tag = "sessions",
    params(
        ("session_id" = String, Path, description = "The session."),
        ("If-None-Match" = Option<String>, Header,
         description = "An `ETag` of the session: 304 if nothing has happened in it since."),
    ),
    responses(
        (status = 200, description = "The list.", body = TodoList,
         headers(("etag" = String, description = "The session's version."))),
        (status = 304, description = "It is as the client knows it.",
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
    let mut conn = api.pool.acquire_as(caller.tenant).await?;
    let found = find_todos(&mut conn, caller.tenant, id).await?;
    conn.give_back();
    let (todos, last_seq) =
        found.ok_or_else(|| ApiError::Service(Error::SessionNotFound(id.to_string())))?;
    if let Some(status) = not_modified(&headers, last_seq) {
        return Ok((status, etag(last_seq)).into_response());
    }
    Ok((etag(last_seq), Json(TodoList { todos })).into_response())
}
