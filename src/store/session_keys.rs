//! Idempotency keys of session creation. Each names a session for a day.

use sqlx::PgConnection;

use super::StoreError;
use crate::domain::ids::{SessionId, TenantId};

/// Finds the session that was created with a key within the last day, and the hash of the request
/// that created it.
pub async fn find_by_key(
    conn: &mut PgConnection,
    tenant: TenantId,
    key: &str,
) -> Result<Option<(SessionId, Vec<u8>)>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT id, idempotency_fingerprint AS "fingerprint!" FROM sessions
           WHERE tenant_id = $1 AND idempotency_key = $2
             AND created_at > now() - interval '24 hours'"#,
        tenant.as_uuid(),
        key,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| (row.id.into(), row.fingerprint)))
}

/// Removes a key from a session that has had it for a day.
pub async fn remove_expired_key(
    conn: &mut PgConnection,
    tenant: TenantId,
    key: &str,
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE sessions SET idempotency_key = NULL, idempotency_fingerprint = NULL
         WHERE tenant_id = $1 AND idempotency_key = $2
           AND created_at <= now() - interval '24 hours'",
        tenant.as_uuid(),
        key,
    )
    .execute(conn)
    .await?;
    Ok(())
}
