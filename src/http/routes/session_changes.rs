//! Changing a session: its name, what the client keeps with it, its permission mode, whether it is
//! put away.

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use sqlx::{Connection as _, PgConnection};

use super::answering::end;
use super::session_checks::{MAX_METADATA, NOT_READABLE, is_readable_object, title_problem};
use super::sessions::resource;
use crate::domain::event::{EventBody, Frame, NewEvent};
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::merge_patch::merge;
use crate::domain::permission::PermissionMode;
use crate::domain::session::Session;
use crate::domain::word::word;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, FieldError, Problem};
use crate::http::extract::conditions::{check, expected};
use crate::http::extract::json_body::{JsonBody, given};
use crate::http::extract::path::SessionPath;
use crate::http::permissions::check_mode;
use crate::http::resources::SessionResource;
use crate::http::server::deadline::in_time;
use crate::http::state::Api;
use crate::store::events::append;
use crate::store::session_changes::{Changeable, change, lock};
use crate::store::sessions::find;

/// What is to be changed of a session. What is absent stays as it is; null takes away.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct UpdateSession {
    /// A name for people, at most 500 characters.
    #[expect(clippy::option_option, reason = "null is another thing than nothing")]
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, max_length = 500)]
    title: Option<Option<String>>,
    /// A merge patch (RFC 7396) of at most 32 kB for what the client keeps with the session, which
    /// is at most 16 kB then.
    #[expect(clippy::option_option, reason = "null is another thing than nothing")]
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Option<Box<RawValue>>>,
    /// What becomes of calls that no rule speaks of, from the live run's next step on. `bypass`
    /// must have been enabled by the operator.
    #[serde(default, deserialize_with = "mode")]
    #[schema(value_type = PermissionMode)]
    permission_mode: Option<PermissionMode>,
    /// Whether the session is put away: lists leave it out, and it takes no messages. What runs and
    /// what waits in it goes on.
    #[serde(default, deserialize_with = "truth")]
    #[schema(value_type = bool)]
    archived: Option<bool>,
}

/// A session always has a mode: null is none.
fn mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PermissionMode>, D::Error> {
    word(deserializer).map(Some)
}

/// Null is neither.
fn truth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    bool::deserialize(deserializer).map(Some)
}

/// The members of a session that are given when it is made, and never change.
const PINNED: [&str; 19] = [
    "/agent",
    "/betas",
    "/budget",
    "/context",
    "/dispatch",
    "/effort",
    "/limits",
    "/max_tokens",
    "/model",
    "/model_metadata",
    "/output_schema",
    "/permissions",
    "/service_tier",
    "/stop_sequences",
    "/sub_agents",
    "/system",
    "/thinking",
    "/tools",
    "/workspace",
];

/// What is pinned is a member that this route does not know.
fn say_pinned(error: ApiError) -> ApiError {
    let ApiError::Validation(mut errors) = error else { return error };
    for error in &mut errors {
        if PINNED.contains(&error.pointer.as_str()) {
            "is pinned when the session is made, and cannot be changed"
                .clone_into(&mut error.message);
        }
    }
    ApiError::Validation(errors)
}

/// The largest patch, in bytes: enough to take away all that there can be.
const MAX_PATCH: usize = 32 * 1024;

impl UpdateSession {
    fn check(&self) -> Result<(), ApiError> {
        let mut errors = Vec::new();
        let mut refuse = |pointer: &str, message: &str| {
            errors.push(FieldError { pointer: pointer.to_owned(), message: message.to_owned() });
        };
        if let Some(problem) = self.title.iter().flatten().find_map(|title| title_problem(title)) {
            refuse("/title", problem);
        }
        if let Some(Some(patch)) = &self.metadata {
            if !is_readable_object(patch.get()) {
                refuse("/metadata", NOT_READABLE);
            } else if patch.get().len() > MAX_PATCH {
                refuse("/metadata", "is a patch larger than 32 kB");
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(ApiError::Validation(errors)) }
    }

    /// The session as it is to be, and the event that tells what of it is another one.
    fn apply(self, before: &Changeable) -> Result<(Changeable, Option<EventBody>), ApiError> {
        let internal = |error: serde_json::Error| ApiError::Internal(error.to_string());
        let metadata = match self.metadata {
            None => before.metadata.clone(),
            Some(None) => RawValue::from_string("{}".to_owned()).map_err(internal)?,
            Some(Some(patch)) => merge(&before.metadata, &patch).map_err(internal)?,
        };
        if metadata.get().len() > MAX_METADATA {
            return Err(ApiError::field("/metadata", "would be larger than 16 kB"));
        }
        let after = Changeable {
            title: self.title.unwrap_or_else(|| before.title.clone()),
            metadata,
            permission_mode: self.permission_mode.or(before.permission_mode),
            is_archived: self.archived.unwrap_or(before.is_archived),
        };
        let has_title = after.title != before.title;
        let has_metadata = after.metadata.get() != before.metadata.get();
        let has_mode = after.permission_mode != before.permission_mode;
        let is_put = after.is_archived != before.is_archived;
        let event = EventBody::Updated {
            title: has_title.then(|| after.title.clone()),
            metadata: has_metadata.then(|| after.metadata.clone()),
            permission_mode: after.permission_mode.filter(|_| has_mode),
            archived: is_put.then_some(after.is_archived),
            sent_history: None,
        };
        let has_changed = has_title || has_metadata || has_mode || is_put;
        Ok((after, has_changed.then_some(event)))
    }
}

/// Changes a session, by a merge patch (RFC 7396).
///
/// The event `session.updated` tells what has changed, and the session's version is another one
/// then. What was pinned when the session was made is refused.
#[utoipa::path(
    patch, path = "/sessions/{session_id}", operation_id = "update_session", tag = "sessions",
    params(
        ("session_id" = String, Path, description = "The session."),
        ("If-Match" = Option<String>, Header,
         description = "The session's `ETag`: 412 if anything has happened in it since."),
    ),
    request_body(
        content(
            (UpdateSession = "application/merge-patch+json"),
            (UpdateSession = "application/json"),
        )
    ),
    responses(
        (status = 200, description = "The session as it is now.", body = SessionResource,
         headers(("etag" = String, description = "Its version."))),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "`version_mismatch`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn update_session(
    State(api): State<Api>,
    caller: Caller,
    path: SessionPath,
    headers: HeaderMap,
    body: Result<JsonBody<UpdateSession>, ApiError>,
) -> Result<Response, ApiError> {
    let SessionPath(session_id) = path;
    let JsonBody(update) = body.map_err(say_pinned)?;
    update.check()?;
    check_mode(&api, update.permission_mode)?;
    let updating = Updating { tenant: caller.tenant, session_id, versions: expected(&headers) };
    let changed = async {
        let mut conn = api.pool.acquire_as(caller.tenant).await?;
        let mut transaction = conn.begin().await?;
        let met = updating.meet(&mut transaction, update).await;
        let met = end(transaction, met).await?;
        conn.give_back();
        met
    };
    let (session, frames) = in_time(changed).await?;
    api.bus.publish(session_id, frames);
    Ok(resource(&api, session))
}

/// A change on its way to its session.
struct Updating {
    tenant: TenantId,
    session_id: SessionId,
    versions: Option<Vec<i64>>,
}

impl Updating {
    async fn meet(
        &self,
        conn: &mut PgConnection,
        update: UpdateSession,
    ) -> Result<(Session, Vec<Frame>), ApiError> {
        let missing = || ApiError::SessionNotFound(self.session_id.to_string());
        let (before, last_seq) =
            lock(conn, self.tenant, self.session_id).await?.ok_or_else(missing)?;
        check(self.versions.as_deref(), last_seq)?;
        let (after, event) = update.apply(&before)?;
        let mut frames = Vec::new();
        if let Some(event) = event {
            change(conn, self.session_id, &after).await?;
            frames = append(conn, self.session_id, None, &[NewEvent::new(&event)]).await?;
        }
        let session = find(conn, self.tenant, self.session_id).await?.ok_or_else(missing)?;
        Ok((session, frames))
    }
}
