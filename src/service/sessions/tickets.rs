//! Tickets: short-lived credentials for the event stream of one session, or of the session list.

use std::time::Duration;

use jiff::Timestamp;

use crate::domain::ids::{SessionId, TenantId};
use crate::domain::principal::Principal;
use crate::domain::ticket::Ticket;
use crate::service::error::Error;
use crate::service::state::Service;
use crate::store::stream_tickets::{NewTicket, insert, sweep};

/// Lifetime of a ticket: enough to open one stream.
const LIFETIME: Duration = Duration::from_mins(1);

/// A request for a ticket.
pub(crate) struct CreateTicket {
    pub(crate) tenant: TenantId,
    /// The session; none for the session list.
    pub(crate) session_id: Option<SessionId>,
    /// The credential of the caller; none if the service requires no keys.
    pub(crate) principal: Option<Principal>,
}

/// A new ticket.
pub(crate) struct CreatedTicket {
    pub(crate) ticket: Ticket,
    pub(crate) expires_at: Timestamp,
}

/// Creates a ticket for one stream, and deletes expired ones.
pub(crate) async fn create_ticket(
    service: &Service,
    request: CreateTicket,
) -> Result<CreatedTicket, Error> {
    let CreateTicket { tenant, session_id, principal } = request;
    let ticket = Ticket::generate().map_err(Error::internal)?;
    let new = NewTicket { hash: ticket.hash(), tenant, session_id, principal, lifetime: LIFETIME };
    let expires_at = service.pool.with(tenant, async |conn| insert(conn, &new).await).await?;
    service.admission_pool.with(async |conn| sweep(conn).await).await?;
    let missing =
        || Error::SessionNotFound(session_id.map_or_else(String::new, |id| id.to_string()));
    let expires_at = expires_at.ok_or_else(missing)?;
    Ok(CreatedTicket { ticket, expires_at })
}
