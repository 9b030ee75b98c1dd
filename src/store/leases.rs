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
             WHERE lease_owner = ANY($1) AND lease_until > now()
             ORDER BY id FOR NO KEY UPDATE)",
        &dead,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// A lease of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldLease {
    /// The run.
    pub run_id: RunId,
    /// False if another transaction has locked the run, such as a step: the lease is as before.
    pub is_renewed: bool,
    /// True if the client has requested cancellation.
    pub is_cancelled: bool,
}

/// Renews the leases of the runs in `held` that still belong to the worker, and returns these. A run
/// that belongs to the worker in the database only, and that it does not drive, is not renewed: it
/// expires and is taken over.
///
/// A run that is locked is left out. So one of them delays no other, and a renewal waits for no
/// transaction that waits for it.
pub async fn renew(
    conn: &mut PgConnection,
    worker: WorkerId,
    held: &[RunId],
) -> Result<Vec<HeldLease>, StoreError> {
    let held: Vec<Uuid> = held.iter().map(|run_id| run_id.as_uuid()).collect();
    let rows = sqlx::query!(
        r#"WITH free AS (
               SELECT id FROM runs
               WHERE lease_owner = $1 AND status = 'running' AND id = ANY($2)
               FOR NO KEY UPDATE SKIP LOCKED
           ), renewed AS (
               UPDATE runs r SET lease_until = now() + make_interval(secs => $3)
               FROM free WHERE r.id = free.id
               RETURNING r.id
           )
           SELECT r.id, renewed.id IS NOT NULL AS "is_renewed!",
                  r.cancel_requested_at IS NOT NULL AS "is_cancelled!"
           FROM runs r LEFT JOIN renewed ON renewed.id = r.id
           WHERE r.lease_owner = $1 AND r.status = 'running' AND r.id = ANY($2)"#,
        worker.as_uuid(),
        &held,
        LEASE.as_secs_f64(),
    )
    .fetch_all(conn)
    .await?;
    let leases = rows.into_iter().map(|row| HeldLease {
        run_id: row.id.into(),
        is_renewed: row.is_renewed,
        is_cancelled: row.is_cancelled,
    });
    Ok(leases.collect())
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
