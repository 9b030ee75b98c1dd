//! Accepting a message: the run, its position in the queue and its event in one statement. If the
//! session is idle and a worker has a free slot, the same statement starts the run. Messages that
//! arrive at the same time are accepted by one statement.

mod columns;
mod encoded;
mod new_run;
mod write;
mod written;

use sqlx::PgConnection;

use super::StoreError;
use crate::domain::ids::{RunId, SessionId, TenantId};
pub use encoded::EncodedAccept;
pub use new_run::{Accepted, AcceptedRun, MAX_QUEUED, NewRun};
pub use write::AcceptStatus;
use write::write_alone;
#[cfg(test)]
pub(super) use write::write_group;
pub use written::WrittenAccept;

/// Accepts a message, as soon as other transactions have released its session. The session stays locked
/// until the end of the caller's transaction, if there is one; roll the transaction back unless the
/// outcome is [`Accepted::Run`].
pub async fn accept(conn: &mut PgConnection, new: &NewRun<'_>) -> Result<Accepted, StoreError> {
    write_alone(conn, &EncodedAccept::of(new)?).await?.into_accepted(new)
}

/// A run that was accepted earlier.
#[derive(Debug)]
pub struct EarlierRun {
    /// The run.
    pub run_id: RunId,
    /// Its session.
    pub session_id: SessionId,
    /// The hash of the request that created it.
    pub fingerprint: Vec<u8>,
}

/// Finds the run that was accepted with an idempotency key or a client message ID.
pub async fn find_earlier(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    idempotency_key: Option<&str>,
    client_message_id: Option<&str>,
) -> Result<Option<EarlierRun>, StoreError> {
    let row = sqlx::query!(
        "SELECT id, session_id, fingerprint FROM runs
         WHERE tenant_id = $1 AND session_id = $2
           AND (idempotency_key = $3 OR client_message_id = $4)
         ORDER BY idempotency_key = $3 DESC NULLS LAST
         LIMIT 1",
        tenant.as_uuid(),
        session_id.as_uuid(),
        idempotency_key,
        client_message_id,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| EarlierRun {
        run_id: row.id.into(),
        session_id: row.session_id.into(),
        fingerprint: row.fingerprint,
    }))
}
