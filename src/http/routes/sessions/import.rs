//! Importing sessions.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use super::response::created_response;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::large_body::LargeLines;
use crate::http::resources::SessionResource;
use crate::http::state::Api;
use crate::service::sessions::import::{self, ImportRequest};
use crate::service::sessions::{CreatedSession, Creation};

/// Imports a session from an export in JSON Lines.
///
/// The new session belongs to the caller's tenant. It has the same settings and messages; its ids
/// and times, and those of its runs, are new. The settings are checked as those of any new session,
/// the messages as the model's API would check them. Errors have pointers with line numbers from 1,
/// such as `/lines/7/message/content/0`. The session is created with all of its messages or not at
/// all. Its usage begins at zero.
#[utoipa::path(
    post, path = "/sessions/import", operation_id = "import_session", tag = "sessions",
    request_body(
        content((String = "application/jsonl"), (String = "application/x-ndjson")),
        description = "The export, as `GET …/export` returns it. The limit on its size is that of a \
            message.",
    ),
    responses(
        (status = 201, description = "The session.", body = SessionResource,
         headers(("location" = String, description = "The path of the session."),
                 ("etag" = String, description = "The version of the session."))),
        (status = 400, description = "`body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "`quota_exceeded`: the tenant has the maximum number of sessions; `rate_limited`: the key has sent too many requests.", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`: the tenant stores the maximum number of bytes; `quota` names the resource.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_large_bodies`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn import_session(
    State(api): State<Arc<Api>>,
    caller: Caller,
    body: LargeLines,
) -> Result<Response, ApiError> {
    let LargeLines(body, body_permits) = body;
    let request = ImportRequest { creator: caller.creator(), body, size: body_permits.bytes() };
    let session = import::import_session(&api.service, request).await?;
    drop(body_permits);
    Ok(created_response(&api, &caller, CreatedSession { session, creation: Creation::New }))
}
