//! Tickets for streams.

use std::time::Duration;

use jiff_sqlx::{Timestamp, ToSqlx as _};
use sqlx::PgConnection;

use super::{StoreError, unreadable};
use crate::domain::api_key::SecretHash;
use crate::domain::ids::{KeyId, SessionId, TenantId};
use crate::domain::pass::{Pass, SubjectHash};

/// A ticket to be stored.
#[derive(Debug)]
pub struct NewTicket {
    /// What is kept of it.
    pub hash: SecretHash,
    /// The owner of the session.
    pub tenant: TenantId,
    /// The session whose stream it opens.
    pub session_id: SessionId,
    /// What it is made with, if its maker was asked for something.
    pub pass: Option<Pass>,
    /// How long it is good, if that is.
    pub lifetime: Duration,
}

/// Stores a ticket and says when it expires, or that the tenant has no such session.
pub async fn insert(
    conn: &mut PgConnection,
    new: &NewTicket,
) -> Result<Option<jiff::Timestamp>, StoreError> {
    let (key, token) = match new.pass {
        Some(Pass::Key(id)) => (Some(id), None),
        Some(Pass::Token(subject, until)) => (None, Some((subject, until))),
        None => (None, None),
    };
    let expires_at = sqlx::query_scalar!(
        r#"INSERT INTO stream_tickets (secret_hash, session_id, tenant_id, key_id, token_holder,
                                       token_until, expires_at)
           SELECT $1, id, tenant_id, $4, $6, $7, least(now() + make_interval(secs => $5), $7)
           FROM sessions WHERE id = $2 AND tenant_id = $3
           RETURNING expires_at AS "expires_at: Timestamp""#,
        &new.hash.0,
        new.session_id.as_uuid(),
        new.tenant.as_uuid(),
        key.map(KeyId::as_uuid),
        new.lifetime.as_secs_f64(),
        token.map(|(subject, _)| subject.0.to_vec()),
        token.map(|(_, until)| until.to_sqlx()) as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(expires_at.map(Timestamp::to_jiff))
}

/// Sweeps some of those that have expired, whoever's they are. Done for each that is stored, it
/// takes more than come, so that they do not pile up.
pub async fn sweep(conn: &mut PgConnection) -> Result<(), StoreError> {
    sqlx::query!(
        "DELETE FROM stream_tickets WHERE secret_hash IN (
             SELECT secret_hash FROM stream_tickets WHERE expires_at <= now()
             ORDER BY expires_at LIMIT 100
             FOR UPDATE SKIP LOCKED)"
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Takes a ticket, if it is good for this session: who takes it first is the only one. It was made
/// with nothing where nobody is asked for anything.
pub async fn take(
    conn: &mut PgConnection,
    hash: SecretHash,
    session_id: SessionId,
) -> Result<Option<(TenantId, Option<Pass>)>, StoreError> {
    let row = sqlx::query!(
        r#"DELETE FROM stream_tickets
           WHERE secret_hash = $1 AND session_id = $2 AND expires_at > now()
           RETURNING tenant_id, key_id, token_holder, token_until AS "token_until: Timestamp""#,
        &hash.0,
        session_id.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let pass = match (row.key_id, row.token_holder.zip(row.token_until)) {
        (Some(id), _) => Some(Pass::Key(id.into())),
        (None, Some((holder, until))) => Some(Pass::Token(subject(holder)?, until.to_jiff())),
        (None, None) => None,
    };
    Ok(Some((row.tenant_id.into(), pass)))
}

fn subject(bytes: Vec<u8>) -> Result<SubjectHash, StoreError> {
    let hash = <[u8; 32]>::try_from(bytes)
        .map_err(|bytes| format!("{} bytes", bytes.len()))
        .map_err(unreadable("stream_tickets", "token_holder"))?;
    Ok(SubjectHash(hash))
}
