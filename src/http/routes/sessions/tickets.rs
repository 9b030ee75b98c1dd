//! Tickets for event streams.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;

use crate::domain::ids::SessionId;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::path::SessionPath;
use crate::http::server::forwarded::link;
use crate::http::state::Api;
use crate::service::sessions::{self, CreateTicket, CreatedTicket};

/// A ticket for one stream.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct TicketResource {
    /// The ticket. It is only returned here.
    ticket: String,
    /// The time when the ticket expires.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    expires_at: Timestamp,
    /// The path of the event stream with the ticket.
    stream_url: String,
}

/// Creates a ticket for one stream of a session.
///
/// The `EventSource` of browsers cannot send an API key. With the query parameter `ticket` it can
/// open `/events/stream` or `/runs/{run_id}/stream` of this session once, within a minute, with the
/// rights of the key that created the ticket. A key with the scope to read can create tickets.
#[utoipa::path(
    post, path = "/sessions/{session_id}/tickets", operation_id = "create_ticket", tag = "events",
    params(("session_id" = String, Path, description = "The id of the session.")),
    responses(
        (status = 201, description = "The ticket.", body = TicketResource,
         headers(("cache-control" = String, description = "`private, no-store`"))),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`database_unavailable`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_ticket(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
) -> Result<impl IntoResponse, ApiError> {
    let SessionPath(session_id) = path;
    let stream = format!("/sessions/{session_id}/events/stream");
    new_ticket(&api, caller, Some(session_id), &stream).await
}

/// Creates a ticket for the stream of the session list.
///
/// With the query parameter `ticket`, the `EventSource` of a browser can open `/sessions/stream` once,
/// within a minute, with the rights of the credential that created the ticket: a ticket of a browser
/// token shows the sessions of its user. A key with the scope to read can create tickets.
#[utoipa::path(
    post, path = "/sessions/tickets", operation_id = "create_list_ticket", tag = "sessions",
    responses(
        (status = 201, description = "The ticket.", body = TicketResource,
         headers(("cache-control" = String, description = "`private, no-store`"))),
        (status = 503, description = "`database_unavailable`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_list_ticket(
    State(api): State<Arc<Api>>,
    caller: Caller,
) -> Result<impl IntoResponse, ApiError> {
    new_ticket(&api, caller, None, "/sessions/stream").await
}

async fn new_ticket(
    api: &Api,
    caller: Caller,
    session_id: Option<SessionId>,
    stream: &str,
) -> Result<(StatusCode, Json<TicketResource>), ApiError> {
    let request = CreateTicket { tenant: caller.tenant, session_id, principal: caller.principal };
    let CreatedTicket { ticket, expires_at } =
        sessions::create_ticket(&api.service, request).await?;
    let ticket = ticket.reveal().to_owned();
    let stream_url = link(format_args!("{stream}?ticket={ticket}"));
    Ok((StatusCode::CREATED, Json(TicketResource { ticket, expires_at, stream_url })))
}
