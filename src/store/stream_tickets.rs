//! Tickets for event streams.

use std::time::Duration;

use jiff_sqlx::{Timestamp, ToSqlx as _};
use sqlx::PgConnection;

use super::StoreError;
use super::hash::read_hash;
use crate::domain::api_key::SecretHash;
use crate::domain::ids::{BrowserTokenId, KeyId, SessionId, TenantId};
use crate::domain::principal::{Principal, SubjectHash};

/// A ticket to be inserted.
#[derive(Debug)]
pub struct NewTicket {
    /// The hash of its secret.
    pub hash: SecretHash,
    /// The owner of the sessions.
    pub tenant: TenantId,
    /// The session whose stream it opens; none for the stream of the session list.
    pub session_id: Option<SessionId>,
    /// The credentials that created it, if the service requires any.
    pub principal: Option<Principal>,
    /// The remaining lifetime of these credentials, if limited.
    pub lifetime: Duration,
}

/// Inserts a ticket and returns when it expires. Returns `None` if the tenant does not have the
/// session.
pub async fn insert(
    conn: &mut PgConnection,
    new: &NewTicket,
) -> Result<Option<jiff::Timestamp>, StoreError> {
    let (key, token, browser_token) = match new.principal {
        Some(Principal::Key(id)) => (Some(id), None, None),
        Some(Principal::Token(subject, until)) => (None, Some((subject, until)), None),
        Some(Principal::BrowserToken(id)) => (None, None, Some(id)),
        None => (None, None, None),
    };
    let expires_at = sqlx::query_scalar!(
        r#"INSERT INTO stream_tickets (secret_hash, session_id, tenant_id, key_id, token_holder,
                                       token_until, browser_token_id, expires_at)
           SELECT $1, $2, $3, $4, $6, $7, $8, least(now() + make_interval(secs => $5), $7)
           WHERE $2::uuid IS NULL
              OR EXISTS (SELECT FROM sessions WHERE id = $2 AND tenant_id = $3)
           RETURNING expires_at AS "expires_at: Timestamp""#,
        &new.hash.0,
        new.session_id.map(SessionId::as_uuid),
        new.tenant.as_uuid(),
        key.map(KeyId::as_uuid),
        new.lifetime.as_secs_f64(),
        token.map(|(subject, _)| subject.0.to_vec()),
        token.map(|(_, until)| until.to_sqlx()) as _,
        browser_token.map(BrowserTokenId::as_uuid),
    )
    .fetch_optional(conn)
    .await?;
    Ok(expires_at.map(Timestamp::to_jiff))
}

/// Deletes some expired tickets of any tenant. It runs with each insert and deletes more than one,
/// so that expired tickets do not accumulate.
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

/// Redeems a ticket for this session, or for the session list; only the first caller succeeds. A
/// ticket has no credentials if the service requires none.
pub async fn take(
    conn: &mut PgConnection,
    hash: SecretHash,
    session_id: Option<SessionId>,
) -> Result<Option<(TenantId, Option<Principal>)>, StoreError> {
    let row = sqlx::query!(
        r#"DELETE FROM stream_tickets
           WHERE secret_hash = $1 AND session_id IS NOT DISTINCT FROM $2 AND expires_at > now()
           RETURNING tenant_id, key_id, token_holder, token_until AS "token_until: Timestamp",
                     browser_token_id"#,
        &hash.0,
        session_id.map(SessionId::as_uuid),
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let principal = match (row.key_id, row.token_holder.zip(row.token_until)) {
        (Some(id), _) => Some(Principal::Key(id.into())),
        (None, Some((holder, until))) => {
            let holder = read_hash("stream_tickets", "token_holder", holder)?;
            Some(Principal::Token(SubjectHash(holder), until.to_jiff()))
        }
        (None, None) => row.browser_token_id.map(|id| Principal::BrowserToken(id.into())),
    };
    Ok(Some((row.tenant_id.into(), principal)))
}
