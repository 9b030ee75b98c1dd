//! Making sessions, each once.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::LOCATION;

use super::sessions::{CreateSession, Made, resource};
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::session::Session;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::idempotency::{Keyed, KeyedJsonBody, mark_repeated};
use crate::http::resources::SessionResource;
use crate::http::server::deadline::in_time;
use crate::http::server::forwarded::link;
use crate::http::state::Api;
use crate::store::session_keys::{find_made, take_old_key};
use crate::store::sessions::{find, insert};

/// Creates a session.
///
/// Model, system prompt and tools are pinned as they are now.
///
/// An `Idempotency-Key` makes the request safe to repeat: the same key and body give the same
/// session, as it is by then.
#[utoipa::path(
    post, path = "/sessions", operation_id = "create_session", tag = "sessions",
    params(
        ("Idempotency-Key" = Option<String>, Header,
         description = "A second request of this tenant with the same key and body gives the same \
            session; with another body 422. Kept for 24 hours, or until the session is deleted."),
    ),
    request_body = Option<CreateSession>,
    responses(
        (status = 201, description = "The session.", body = SessionResource,
         headers(("location" = String, description = "The session's path."),
                 ("etag" = String, description = "Its version."),
                 ("idempotency-replayed" = String, description = "`true` for a repeated request."))),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`, `idempotency_key_reused`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_session(
    State(api): State<Api>,
    caller: Caller,
    body: KeyedJsonBody<CreateSession>,
) -> Result<Response, ApiError> {
    let KeyedJsonBody(wanted, keyed) = body;
    let creating = Creating { api: &api, tenant: caller.tenant, keyed };
    if let Some(earlier) = in_time(creating.earlier()).await? {
        return Ok(creating.answer(earlier, true));
    }
    let made = wanted.make(&api, caller.tenant).await?;
    let (session, is_repeated) = in_time(creating.store(&made)).await?;
    Ok(creating.answer(session, is_repeated))
}

/// A session on its way.
struct Creating<'a> {
    api: &'a Api,
    tenant: TenantId,
    keyed: Option<Keyed>,
}

impl Creating<'_> {
    /// The session that the same request made before.
    async fn earlier(&self) -> Result<Option<Session>, ApiError> {
        let Some(Keyed { key, fingerprint }) = &self.keyed else { return Ok(None) };
        let mut conn = self.api.pool.acquire_as(self.tenant).await?;
        let earlier = match find_made(&mut conn, self.tenant, key).await? {
            Some((_, before)) if before != *fingerprint => Err(ApiError::KeyReused),
            Some((id, _)) => Ok(find(&mut conn, self.tenant, id).await?),
            None => Ok(None),
        };
        conn.give_back();
        earlier
    }

    /// Stores the session; the earlier one if the same request was faster.
    async fn store(&self, made: &Made) -> Result<(Session, bool), ApiError> {
        loop {
            if let Some(session) = self.try_store(made).await? {
                return Ok((session, false));
            }
            // None if it was deleted meanwhile, and the key is free again.
            if let Some(earlier) = self.earlier().await? {
                return Ok((earlier, true));
            }
        }
    }

    /// Stores the session, unless another one has its key.
    async fn try_store(&self, made: &Made) -> Result<Option<Session>, ApiError> {
        let id = SessionId::new();
        let mut new = made.row(id, self.tenant);
        let mut conn = self.api.pool.acquire_as(self.tenant).await?;
        if let Some(Keyed { key, fingerprint }) = &self.keyed {
            take_old_key(&mut conn, self.tenant, key).await?;
            new.made_by = Some((key, fingerprint));
        }
        let session = if insert(&mut conn, &new).await? {
            let missing = || ApiError::Internal(format!("{id} was stored and is not there"));
            Some(find(&mut conn, self.tenant, id).await?.ok_or_else(missing)?)
        } else {
            None
        };
        conn.give_back();
        Ok(session)
    }

    fn answer(&self, session: Session, is_repeated: bool) -> Response {
        let location = link(format_args!("/sessions/{}", session.id));
        let session = resource(self.api, session);
        let mut response = (StatusCode::CREATED, [(LOCATION, location)], session).into_response();
        mark_repeated(&mut response, is_repeated);
        response
    }
}
