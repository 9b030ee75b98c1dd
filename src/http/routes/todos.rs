//! The todo list that the model keeps.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use serde::Serialize;

use crate::domain::state_change::Todo;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::conditions::unless_known;
use crate::http::extract::path::SessionPath;
use crate::http::state::Api;
use crate::service::sessions::{SessionTodos, find_todos};

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
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let SessionPath(id) = path;
    let SessionTodos { todos, last_seq } = find_todos(&api.service, caller.tenant, id).await?;
    Ok(unless_known(&headers, last_seq, || Json(TodoList { todos })))
}
