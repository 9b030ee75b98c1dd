//! Changing sessions.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;

use super::response::session_response;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::conditions::expected;
use crate::http::extract::json_body::JsonBody;
use crate::http::extract::path::SessionPath;
use crate::http::resources::SessionResource;
use crate::http::state::Api;
use crate::service::Error;
use crate::service::sessions::{self, SessionUpdate, UpdateSession};

/// The members of a session that are given at creation and never change.
const PINNED: [&str; 28] = [
    "/agent",
    "/betas",
    "/budget",
    "/context",
    "/deferred_tools",
    "/dispatch",
    "/external_id",
    "/extra_body",
    "/fallback_models",
    "/generate_title",
    "/interrupted_replies",
    "/limits",
    "/max_tokens",
    "/model_metadata",
    "/output_schema",
    "/permissions",
    "/seed",
    "/service_tier",
    "/stop_sequences",
    "/sub_agents",
    "/system",
    "/temperature",
    "/tool_choice",
    "/tools",
    "/top_k",
    "/top_p",
    "/user",
    "/workspace",
];

/// Reports pinned members as such. To the parser of the body they are unknown members.
fn explain_pinned(error: ApiError) -> ApiError {
    let ApiError::Service(Error::Validation(mut errors)) = error else { return error };
    for error in &mut errors {
        if PINNED.contains(&error.pointer.as_str()) {
            "is pinned when the session is created, and cannot be changed"
                .clone_into(&mut error.message);
        }
    }
    Error::Validation(errors).into()
}

/// Changes a session by a merge patch (RFC 7396).
///
/// The event `session.updated` has the changed members, and the session gets a new version. Settings
/// that are pinned at creation are refused.
#[utoipa::path(
    patch, path = "/sessions/{session_id}", operation_id = "update_session", tag = "sessions",
    params(
        ("session_id" = String, Path, description = "The id of the session."),
        ("If-Match" = Option<String>, Header,
         description = "The session's `ETag`. If the session has another version, the response is 412."),
    ),
    request_body(
        content(
            (UpdateSession = "application/merge-patch+json"),
            (UpdateSession = "application/json"),
        )
    ),
    responses(
        (status = 200, description = "The changed session.", body = SessionResource,
         headers(("etag" = String, description = "The version of the session."))),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "`version_mismatch`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`: the tenant stores the maximum number of bytes; `quota` names the resource.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn update_session(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    headers: HeaderMap,
    body: Result<JsonBody<UpdateSession>, ApiError>,
) -> Result<Response, ApiError> {
    let SessionPath(session_id) = path;
    let JsonBody(changes) = body.map_err(explain_pinned)?;
    let update =
        SessionUpdate { tenant: caller.tenant, session_id, expected: expected(&headers), changes };
    let session = sessions::update_session(&api.service, update).await?;
    Ok(session_response(&api, &caller, session))
}
