//! Creating sessions.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use super::response::created_response;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::idempotency::KeyedJsonBody;
use crate::http::resources::SessionResource;
use crate::http::state::Api;
use crate::service::session_settings::CreateSession;
use crate::service::sessions;

/// Creates a session.
///
/// The model, the system prompt and the tool definitions are pinned: later changes of the
/// configuration do not affect the session.
///
/// With an `Idempotency-Key` the request is safe to repeat: the same key and body return the same
/// session, as it is at that time. With an `external_id` the request finds or creates the session
/// that has this id.
#[utoipa::path(
    post, path = "/sessions", operation_id = "create_session", tag = "sessions",
    params(
        ("Idempotency-Key" = Option<String>, Header,
         description = "A key for safe repetition. A second request of the tenant with the same key \
            and body returns the same session; with another body it fails with 422. A key is kept \
            for 24 hours, or until the session is deleted."),
    ),
    request_body = Option<CreateSession>,
    responses(
        (status = 200, description = "The session that already has this `external_id`.", body = SessionResource,
         headers(("location" = String, description = "The path of the session."),
                 ("etag" = String, description = "The version of the session."))),
        (status = 201, description = "The session.", body = SessionResource,
         headers(("location" = String, description = "The path of the session."),
                 ("etag" = String, description = "The version of the session."),
                 ("idempotency-replayed" = String, description = "`true` for a repeated request."))),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`external_id_taken`: a session of another user has this `external_id`.", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`, `idempotency_key_reused`", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "`quota_exceeded`: the tenant has the maximum number of sessions; `rate_limited`: the key has sent too many requests.", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`: the tenant stores the maximum number of bytes; `quota` names the resource.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_session(
    State(api): State<Arc<Api>>,
    caller: Caller,
    body: KeyedJsonBody<CreateSession>,
) -> Result<Response, ApiError> {
    let KeyedJsonBody(request, key) = body;
    let created = sessions::create_session(&api.service, &caller.creator(), request, key).await?;
    Ok(created_response(&api, &caller, created))
}
