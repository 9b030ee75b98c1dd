//! Tickets: how a page opens a stream without telling its key to the address bar.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use http::StatusCode;
use http::header::CACHE_CONTROL;
use jiff::Timestamp;
use serde::Serialize;

use crate::domain::ticket::Ticket;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::path::SessionPath;
use crate::http::server::forwarded::link;
use crate::http::state::Api;
use crate::store::stream_tickets::{NewTicket, insert, sweep};

/// Time enough to open a stream, and no more.
const GOOD_FOR: Duration = Duration::from_mins(1);

/// A ticket for one stream.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct TicketResource {
    /// The ticket. It is shown once.
    ticket: String,
    /// When it is no longer good.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// The path of the session's stream, with the ticket.
    stream_url: String,
}

/// Makes a ticket for one stream of a session.
///
/// For the `EventSource` of browsers, which sends no key: `?ticket=` stands in for the key that made
/// the ticket, once, within a minute, on `/events/stream` and the `/runs/{run_id}/stream` of this
/// session. A key for reading is enough to make one.
#[utoipa::path(
    post, path = "/sessions/{session_id}/tickets", operation_id = "create_ticket", tag = "events",
    params(("session_id" = String, Path, description = "The session.")),
    responses(
        (status = 201, description = "The ticket.", body = TicketResource,
         headers(("cache-control" = String, description = "`no-store`"))),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`database_unavailable`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_ticket(
    State(api): State<Api>,
    caller: Caller,
    path: SessionPath,
) -> Result<impl IntoResponse, ApiError> {
    let SessionPath(session_id) = path;
    let ticket = Ticket::generate().map_err(|error| ApiError::Internal(error.to_string()))?;
    let (hash, tenant, pass) = (ticket.hash(), caller.tenant, caller.pass);
    let new = NewTicket { hash, tenant, session_id, pass, lifetime: GOOD_FOR };
    let mut conn = api.pool.acquire_as(caller.tenant).await?;
    let expires_at = insert(&mut conn, &new).await?;
    conn.give_back();
    let mut conn = api.admission_pool.acquire().await?;
    sweep(&mut conn).await?;
    conn.give_back();
    let expires_at = expires_at.ok_or_else(|| ApiError::SessionNotFound(session_id.to_string()))?;
    let ticket = ticket.reveal().to_owned();
    let stream_url = link(format_args!("/sessions/{session_id}/events/stream?ticket={ticket}"));
    let resource = TicketResource { ticket, expires_at, stream_url };
    Ok((StatusCode::CREATED, [(CACHE_CONTROL, "no-store")], Json(resource)))
}
