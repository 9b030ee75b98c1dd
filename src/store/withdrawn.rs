//! Messages that are withdrawn before their runs start.

use sqlx::PgConnection;

use super::StoreError;
use crate::domain::ids::{RunId, SessionId, TenantId};

/// Frees the client's id of a message whose run was cancelled before it started. Returns false if the run
/// is not such a run.
pub async fn release_message_id(
    conn: &mut PgConnection,
    tenant: TenantId,
    run_id: RunId,
) -> Result<bool, StoreError> {
    let released = sqlx::query!(
        "UPDATE runs SET client_message_id = NULL
         WHERE id = $1 AND tenant_id = $2 AND status = 'cancelled' AND started_at IS NULL",
        run_id.as_uuid(),
        tenant.as_uuid(),
    )
    .execute(conn)
    .await?;
    Ok(released.rows_affected() > 0)
}

/// Lists the queued runs of a session that were accepted after this one.
pub async fn list_queued_from(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    run_id: RunId,
) -> Result<Vec<RunId>, StoreError> {
    let ids = sqlx::query_scalar!(
        "SELECT id FROM runs
         WHERE tenant_id = $1 AND session_id = $2 AND status = 'queued'
           AND accepted_seq > (SELECT accepted_seq FROM runs WHERE id = $3)
         ORDER BY accepted_seq",
        tenant.as_uuid(),
        session_id.as_uuid(),
        run_id.as_uuid(),
    )
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(RunId::from).collect())
}
