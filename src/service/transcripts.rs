//! Conversations of clients that send the whole transcript with every message.

use sqlx::PgConnection;

use super::error::Error;
use super::state::Service;
use crate::domain::ids::{SessionId, TenantId};
pub(crate) use crate::store::transcripts::{MessagePlace, MessageTurn};
use crate::store::transcripts::{find_place, find_turns};

/// The prefix of message ids that are made from transcripts. A partial index covers these ids.
pub(crate) const MESSAGE_PREFIX: &str = "oai_";

/// Lists the runs of messages with this id in all sessions of a tenant, newest first.
pub(crate) async fn list_message_turns(
    service: &Service,
    tenant: TenantId,
    message_id: &str,
) -> Result<Vec<MessageTurn>, Error> {
    let find = async |conn: &mut PgConnection| find_turns(conn, tenant, message_id).await;
    Ok(service.pool.with(tenant, find).await?)
}

/// Finds the place of a message in the history of a session; without a message, the place before the
/// first one.
pub(crate) async fn message_place(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    message_id: Option<&str>,
) -> Result<MessagePlace, Error> {
    let find = async |conn: &mut PgConnection| find_place(conn, session_id, message_id).await;
    Ok(service.pool.with(tenant, find).await?)
}
