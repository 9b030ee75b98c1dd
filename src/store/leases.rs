//! Leases of claimed runs: renewal, release and expiry. All times are the database's.

use sqlx::PgConnection;
use uuid::Uuid;

use super::StoreError;
use crate::domain::claim::{Fence, LEASE};
use crate::domain::ids::{RunId, WorkerId};

/// Expires the leases of workers that are known to be dead, so that their runs are taken over at
/// once.
pub async fn expire(conn: &mut PgConnection, dead: &[WorkerId]) -> Result<u64, StoreError> {
    let dead: Vec<Uuid> = dead.iter().map(|worker| worker.as_uuid()).collect();
    let done = sqlx::query!(
        "UPDATE runs SET lease_until = now()
         WHERE id IN (
             SELECT id FROM runs
             WHERE status = 'running' AND lease_owner = ANY($1) AND lease_until > now()
             ORDER BY id FOR NO KEY UPDATE)",
        &dead,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// A renewed lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewed {
    /// The run.
    pub run_id: RunId,
    /// True if the client has requested cancellation.
    pub is_cancelled: bool,
}

/// Renews the leases of the runs in `held` that still belong to the worker. A run that belongs to
/// the worker in the database only, and that it does not drive, is not renewed: it expires and is
/// taken over.
pub async fn renew(
    conn: &mut PgConnection,
    worker: WorkerId,
    held: &[RunId],
) -> Result<Vec<Renewed>, StoreError> {
    let held: Vec<Uuid> = held.iter().map(|run_id| run_id.as_uuid()).collect();
    let rows = sqlx::query!(
        r#"UPDATE runs SET lease_until = now() + make_interval(secs => $3)
           WHERE id IN (
               -- The same lock order as a deletion of several sessions.
               SELECT id FROM runs
               WHERE lease_owner = $1 AND status = 'running' AND id = ANY($2)
               ORDER BY id FOR NO KEY UPDATE)
           RETURNING id, cancel_requested_at IS NOT NULL AS "is_cancelled!""#,
        worker.as_uuid(),
        &held,
        LEASE.as_secs_f64(),
    )
    .fetch_all(conn)
    .await?;
    let renewed = rows
        .into_iter()
        .map(|row| Renewed { run_id: row.id.into(), is_cancelled: row.is_cancelled });
    Ok(renewed.collect())
}

/// Releases the lease of a run, so that another worker claims it at once. A run that failed here may
/// itself be the cause, so that counts as a takeover.
pub async fn release(
    conn: &mut PgConnection,
    fence: Fence,
    has_failed: bool,
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE runs SET lease_until = now(), lease_owner = NULL,
                takeovers = takeovers + CASE WHEN $4 THEN 1 ELSE 0 END
         WHERE id = $1 AND attempt = $2 AND lease_owner = $3 AND status = 'running'",
        fence.run_id.as_uuid(),
        fence.attempt,
        fence.worker.as_uuid(),
        has_failed,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Takes back the takeovers of runs whose leases a worker lost although it is alive: it was paused, or
/// the database was unavailable. A run that no other worker has claimed yet loses its owner, and can be
/// claimed when the lease has expired, so that tools which are being stopped have their time.
pub async fn take_back_takeovers(
    conn: &mut PgConnection,
    worker: WorkerId,
    lost: &[Fence],
) -> Result<(), StoreError> {
    let ids: Vec<Uuid> = lost.iter().map(|fence| fence.run_id.as_uuid()).collect();
    let attempts: Vec<i32> = lost.iter().map(|fence| fence.attempt).collect();
    sqlx::query!(
        "WITH lost AS (
             SELECT r.id, r.attempt > l.attempt AS is_claimed
             FROM unnest($2::uuid[], $3::integer[]) AS l (id, attempt) JOIN runs r ON r.id = l.id
             WHERE r.status = 'running'
               AND (r.attempt > l.attempt OR r.attempt = l.attempt AND r.lease_owner = $1)
             ORDER BY r.id FOR NO KEY UPDATE OF r
         )
         UPDATE runs SET
             takeovers = CASE WHEN is_claimed THEN greatest(takeovers - 1, 0) ELSE takeovers END,
             lease_owner = CASE WHEN is_claimed THEN lease_owner END
         FROM lost WHERE runs.id = lost.id",
        worker.as_uuid(),
        &ids,
        &attempts,
    )
    .execute(conn)
    .await?;
    Ok(())
}
