//! The status of a step whose commit was not acknowledged.

use sqlx::PgConnection;

use crate::domain::claim::Fence;
use crate::domain::permission::PermissionMode;
use crate::store::StoreError;

/// The status of a step whose commit was not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitStatus {
    /// The step was not committed, and may be written again.
    Absent,
    /// The step was committed.
    Committed {
        /// Queued runs of the session.
        queued: i32,
        /// True if the session's owner has a budget.
        is_budgeted: bool,
        /// The session's permission mode, if it was changed.
        permission_mode: Option<PermissionMode>,
    },
    /// The worker has lost its claim.
    Fenced,
}

/// Reads the status of the step that follows the first `steps` ones. Only the owner of the fence
/// writes steps, so a larger number of steps means that this one was committed.
pub async fn commit_status(
    conn: &mut PgConnection,
    fence: Fence,
    steps: i32,
) -> Result<CommitStatus, StoreError> {
    let row = sqlx::query!(
        r#"SELECT r.steps, s.queued, s.permission_mode,
                  r.lease_owner IS NOT DISTINCT FROM $3 AS "is_ours!",
                  EXISTS (SELECT FROM budgets b WHERE b.tenant_id = r.tenant_id) AS "is_budgeted!"
           FROM runs r JOIN sessions s ON s.id = r.session_id
           WHERE r.id = $1 AND r.attempt = $2"#,
        fence.run_id.as_uuid(),
        fence.attempt,
        fence.worker.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(match row {
        // First: the step that settles a run releases its lease.
        Some(row) if row.steps > steps => CommitStatus::Committed {
            queued: row.queued,
            is_budgeted: row.is_budgeted,
            permission_mode: row.permission_mode.as_deref().and_then(PermissionMode::parse),
        },
        Some(row) if row.is_ours => CommitStatus::Absent,
        Some(_) | None => CommitStatus::Fenced,
    })
}
