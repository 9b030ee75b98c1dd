//! Creating, changing, reading and deleting sessions.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;

use super::environment::environment_for_session;
use super::query::SdkQuery;
use super::send::initial_messages;
use super::session::{ManagedSession, Sessions};
use super::session_body::{ManagedSessionBody, ManagedSessionChanges};
use crate::domain::trace::Trace;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::idempotency::KeyedJsonBody;
use crate::http::extract::json_body::JsonBody;
use crate::http::extract::path::SessionPath;
use crate::http::state::Api;
use crate::service::Error;
use crate::service::deadline::in_time;
use crate::service::json::parse;
use crate::service::messages::{PostMessage, post_message};
use crate::service::session_settings::check_mode;
use crate::service::sessions::{
    CreatedSession, DeleteSession, SessionUpdate, UpdateSession, create_session, delete_session,
    find_session, update_session,
};

/// A deleted resource.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ManagedAgentsDeleted)]
pub(in crate::http) struct Deleted {
    /// The kind of the resource: `session_deleted`, `environment_deleted` or `file_deleted`.
    pub(super) r#type: &'static str,
    /// The id of the resource.
    pub(super) id: String,
}

/// Creates a session from an agent, and posts its initial messages.
#[utoipa::path(
    post, path = "/anthropic/v1/sessions", operation_id = "create_managed_session", tag = "managed_agents",
    params(
        ("Idempotency-Key" = Option<String>, Header,
         description = "A key for safe repetition, as in `POST /v1/sessions`."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
    ),
    request_body = ManagedSessionBody,
    responses(
        (status = 200, description = "The session.", body = ManagedSession),
        (status = 400, description = "`validation_failed`, `bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such environment.", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`queue_full`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "`quota_exceeded`, `overloaded`, `rate_limited`", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_managed_session(
    State(api): State<Arc<Api>>,
    caller: Caller,
    Extension(trace): Extension<Trace>,
    body: KeyedJsonBody<ManagedSessionBody>,
) -> Result<Json<ManagedSession>, ApiError> {
    let KeyedJsonBody(mut body, key) = body;
    let (service, tenant) = (&api.service, caller.tenant);
    let messages = initial_messages(std::mem::take(&mut body.initial_events))?;
    for message in &messages {
        let checked = check_mode(service, message.permission_mode);
        checked.map_err(|error| error.under("/initial_events"))?;
    }
    let request = body.creation(service)?;
    let environment = environment_for_session(&api, tenant, body.environment_id.as_deref()).await?;
    let request = request.with_environment(environment);
    let created = Box::pin(create_session(service, &caller.creator(), request, key)).await?;
    let CreatedSession { mut session, .. } = created;
    let has_messages = !messages.is_empty();
    for message in messages {
        let post = PostMessage {
            tenant,
            session_id: session.id,
            message,
            idempotency_key: None,
            versions: None,
            trace,
            other_events: Vec::new(),
        };
        in_time(Box::pin(post_message(service, &post))).await?;
    }
    if has_messages {
        session = find_session(service, tenant, session.id).await?;
    }
    Sessions::new(&api, tenant).render(&session).await.map(Json)
}

/// Retrieves a session.
#[utoipa::path(
    get, path = "/anthropic/v1/sessions/{session_id}", operation_id = "get_managed_session", tag = "managed_agents",
    params(
        ("session_id" = String, Path, description = "The session."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
    ),
    responses(
        (status = 200, description = "The session.", body = ManagedSession),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_managed_session(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    _query: SdkQuery,
) -> Result<Json<ManagedSession>, ApiError> {
    let SessionPath(session_id) = path;
    let session = find_session(&api.service, caller.tenant, session_id).await?;
    Sessions::new(&api, caller.tenant).render(&session).await.map(Json)
}

/// Changes the title and the metadata of a session.
#[utoipa::path(
    post, path = "/anthropic/v1/sessions/{session_id}", operation_id = "update_managed_session", tag = "managed_agents",
    params(
        ("session_id" = String, Path, description = "The session."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
    ),
    request_body = ManagedSessionChanges,
    responses(
        (status = 200, description = "The session.", body = ManagedSession),
        (status = 400, description = "`validation_failed`, `bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn update_managed_session(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    body: JsonBody<ManagedSessionChanges>,
) -> Result<Json<ManagedSession>, ApiError> {
    let SessionPath(session_id) = path;
    let JsonBody(changes) = body;
    let changes = changes.into_update()?;
    let update = SessionUpdate { tenant: caller.tenant, session_id, expected: None, changes };
    let session = update_session(&api.service, update).await?;
    Sessions::new(&api, caller.tenant).render(&session).await.map(Json)
}

/// Archives a session: it accepts no messages any more. Its active run and its queued runs continue.
#[utoipa::path(
    post, path = "/anthropic/v1/sessions/{session_id}/archive", operation_id = "archive_managed_session", tag = "managed_agents",
    params(
        ("session_id" = String, Path, description = "The session."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
    ),
    responses(
        (status = 200, description = "The session.", body = ManagedSession),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn archive_managed_session(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
) -> Result<Json<ManagedSession>, ApiError> {
    let SessionPath(session_id) = path;
    let changes: UpdateSession = parse(br#"{"archived":true}"#).map_err(Error::internal)?;
    let update = SessionUpdate { tenant: caller.tenant, session_id, expected: None, changes };
    let session = update_session(&api.service, update).await?;
    Sessions::new(&api, caller.tenant).render(&session).await.map(Json)
}

/// Deletes a session with the sessions of its sub-agents.
#[utoipa::path(
    delete, path = "/anthropic/v1/sessions/{session_id}", operation_id = "delete_managed_session", tag = "managed_agents",
    params(
        ("session_id" = String, Path, description = "The session."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
    ),
    responses(
        (status = 200, description = "The session was deleted.", body = Deleted),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`session_has_forks`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`database_unavailable`, `too_many_deletions`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn delete_managed_session(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
) -> Result<Json<Deleted>, ApiError> {
    let SessionPath(session_id) = path;
    let request =
        DeleteSession { tenant: caller.tenant, session_id, with_forks: false, expected: None };
    delete_session(&api.service, request).await?;
    Ok(Json(Deleted { r#type: "session_deleted", id: session_id.to_string() }))
}
