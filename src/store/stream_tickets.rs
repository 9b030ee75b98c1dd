//! Tickets for streams.

use std::time::Duration;

use jiff_sqlx::Timestamp;
use sqlx::PgConnection;

use super::StoreError;
use crate::domain::api_key::SecretHash;
use crate::domain::ids::{KeyId, SessionId, TenantId};

/// A ticket to be stored.
#[derive(Debug)]
pub struct NewTicket {
    /// What is kept of it.
    pub hash: SecretHash,
    /// The owner of the session.
    pub tenant: TenantId,
    /// The session whose stream it opens.
    pub session_id: SessionId,
    /// The key that makes it, if there is one.
    pub key: Option<KeyId>,
    /// How long it is good.
    pub lifetime: Duration,
}

/// Stores a ticket and says when it expires, or that the tenant has no such session. Some of those
/// that have expired are swept: more than one for each that is stored, so that they do not pile up.
pub async fn insert(
    conn: &mut PgConnection,
    new: &NewTicket,
) -> Result<Option<jiff::Timestamp>, StoreError> {
    let expires_at = sqlx::query_scalar!(
        r#"WITH swept AS (
               DELETE FROM stream_tickets WHERE secret_hash IN (
                   SELECT secret_hash FROM stream_tickets WHERE expires_at <= now()
                   ORDER BY expires_at LIMIT 100
                   FOR UPDATE SKIP LOCKED
               )
           )
           INSERT INTO stream_tickets (secret_hash, session_id, tenant_id, key_id, expires_at)
           SELECT $1, id, tenant_id, $4, now() + make_interval(secs => $5)
           FROM sessions WHERE id = $2 AND tenant_id = $3
           RETURNING expires_at AS "expires_at: Timestamp""#,
        &new.hash.0,
        new.session_id.as_uuid(),
        new.tenant.as_uuid(),
        new.key.map(KeyId::as_uuid),
        new.lifetime.as_secs_f64(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(expires_at.map(Timestamp::to_jiff))
}

/// Takes a ticket, if it is good for this session: who takes it first is the only one. None of a key
/// made it where nobody is asked for one.
pub async fn take(
    conn: &mut PgConnection,
    hash: SecretHash,
    session_id: SessionId,
) -> Result<Option<(TenantId, Option<KeyId>)>, StoreError> {
    let row = sqlx::query!(
        "DELETE FROM stream_tickets
         WHERE secret_hash = $1 AND session_id = $2 AND expires_at > now()
         RETURNING tenant_id, key_id",
        &hash.0,
        session_id.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| (row.tenant_id.into(), row.key_id.map(Into::into))))
}
