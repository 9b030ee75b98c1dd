//! Tickets for event streams.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;

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
    /// The path of the session's event stream with the ticket.
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
    let request = CreateTicket { tenant: caller.tenant, session_id, principal: caller.principal };
    let CreatedTicket { ticket, expires_at } =
        sessions::create_ticket(&api.service, request).await?;
    let ticket = ticket.reveal().to_owned();
    let stream_url = link(format_args!("/sessions/{session_id}/events/stream?ticket={ticket}"));
    let resource = TicketResource { ticket, expires_at, stream_url };
    Ok((StatusCode::CREATED, Json(resource)))
}
