//! Responses with a session.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::LOCATION;

use crate::domain::session::Session;
use crate::http::extract::conditions::etag;
use crate::http::extract::idempotency::mark_repeated;
use crate::http::resources::SessionResource;
use crate::http::server::forwarded::link;
use crate::http::state::Api;
use crate::service::sessions::CreatedSession;

/// A session with its `ETag`.
pub(super) fn session_response(api: &Api, session: Session) -> Response {
    let etag = etag(session.last_seq);
    (etag, Json(SessionResource::new(session, &api.service.permissions))).into_response()
}

/// A new session with its `ETag` and location.
pub(super) fn created_response(api: &Api, created: CreatedSession) -> Response {
    let CreatedSession { session, is_repeated } = created;
    let location = link(format_args!("/sessions/{}", session.id));
    let session = session_response(api, session);
    let mut response = (StatusCode::CREATED, [(LOCATION, location)], session).into_response();
    mark_repeated(&mut response, is_repeated);
    response
}
