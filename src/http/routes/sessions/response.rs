//! Responses with a session.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::LOCATION;

use crate::domain::session::Session;
use crate::http::auth::Caller;
use crate::http::extract::conditions::etag;
use crate::http::extract::idempotency::mark_repeated;
use crate::http::resources::SessionResource;
use crate::http::server::forwarded::link;
use crate::http::state::Api;
use crate::service::sessions::{CreatedSession, Creation};

/// The session as the caller may see it.
pub(super) fn session_resource(api: &Api, caller: &Caller, session: Session) -> SessionResource {
    let operator = &api.service.permissions;
    if caller.is_browser() {
        SessionResource::for_browser(session, operator)
    } else {
        SessionResource::new(session, operator)
    }
}

/// A session with its `ETag`.
pub(super) fn session_response(api: &Api, caller: &Caller, session: Session) -> Response {
    let etag = etag(session.last_seq);
    (etag, Json(session_resource(api, caller, session))).into_response()
}

/// The session of a create request with its `ETag` and location.
pub(super) fn created_response(api: &Api, caller: &Caller, created: CreatedSession) -> Response {
    let CreatedSession { session, creation } = created;
    let location = link(format_args!("/sessions/{}", session.id));
    let session = session_response(api, caller, session);
    let status = match creation {
        Creation::New | Creation::Repeated => StatusCode::CREATED,
        Creation::Found => StatusCode::OK,
    };
    let mut response = (status, [(LOCATION, location)], session).into_response();
    mark_repeated(&mut response, creation == Creation::Repeated);
    response
}
