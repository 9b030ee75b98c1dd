//! Deleting sessions.

use std::sync::Arc;

use axum::extract::State;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;

use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::conditions::expected;
use crate::http::extract::path::SessionPath;
use crate::http::extract::query::Params;
use crate::http::state::Api;
use crate::service::sessions;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct DeleteSession {
    /// `delete`: deletes the forks of the session, and their forks, as well. Without it a session
    /// with forks is not deleted, because they share the beginning of its history.
    #[param(inline)]
    forks: Option<Forks>,
}

/// The treatment of the forks of a deleted session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum Forks {
    /// They are deleted as well.
    Delete,
}

/// Deletes a session with the sessions of its sub-agents, and optionally its forks.
///
/// The active run and the queued runs are cancelled first. The history, the events and the files
/// are deleted, except for the files of a directory that a client or the operator named. The usage
/// stays in the sums of `/usage`. Open streams end with `session.deleted`.
#[utoipa::path(
    delete, path = "/sessions/{session_id}", operation_id = "delete_session", tag = "sessions",
    params(
        ("session_id" = String, Path, description = "The id of the session."),
        DeleteSession,
        ("If-Match" = Option<String>, Header,
         description = "The session's `ETag`. If the session has another version, the response is 412."),
    ),
    responses(
        (status = 204, description = "The session was deleted."),
        (status = 400, description = "`invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`session_has_forks`, with `forks`", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "`version_mismatch`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`database_unavailable`, `too_many_deletions`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn delete_session(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    query: Params<DeleteSession>,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let SessionPath(session_id) = path;
    let Params(DeleteSession { forks }) = query;
    let request = sessions::DeleteSession {
        tenant: caller.tenant,
        session_id,
        with_forks: forks == Some(Forks::Delete),
        expected: expected(&headers),
    };
    sessions::delete_session(&api.service, request).await?;
    Ok(StatusCode::NO_CONTENT)
}
