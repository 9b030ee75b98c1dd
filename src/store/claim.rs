//! Claims and leases of runs. All times are the database's.

use std::time::Duration;

use sqlx::PgConnection;
use uuid::Uuid;

use super::{StoreError, unreadable};
use crate::domain::claim::{Claimed, Fence, LEASE, Permissions};
use crate::domain::ids::{RunId, SessionId, WorkerId};
use crate::domain::permission::PermissionMode;

/// Number of takeovers without a committed step after which a run fails.
pub const MAX_TAKEOVERS: i32 = 3;

struct Row {
    id: Uuid,
    session_id: Uuid,
    attempt: i32,
    steps: i32,
    takeovers: i32,
    message_id: String,
    input: String,
    options: String,
    is_cancelled: bool,
    elapsed: f64,
    settings: String,
    workspace: Option<String>,
    parent_session_id: Option<Uuid>,
    last_message_seq: i32,
    permission_mode: Option<String>,
    remembered: String,
}

impl Row {
    fn claimed(self, worker: WorkerId) -> Result<Claimed, StoreError> {
        Ok(Claimed {
            fence: Fence { run_id: self.id.into(), attempt: self.attempt, worker },
            session_id: self.session_id.into(),
            settings: serde_json::from_str(&self.settings)
                .map_err(unreadable("sessions", "settings"))?,
            workspace: self.workspace,
            parent_session: self.parent_session_id.map(Into::into),
            message_id: self.message_id,
            input: self.input,
            options: serde_json::from_str(&self.options).map_err(unreadable("runs", "options"))?,
            last_message_seq: self.last_message_seq,
            steps: self.steps,
            takeovers: self.takeovers,
            elapsed: Duration::try_from_secs_f64(self.elapsed).unwrap_or_default(),
            is_cancelled: self.is_cancelled,
            permissions: permissions(self.permission_mode.as_deref(), &self.remembered)?,
            // Set by the step that precedes the first request.
            is_budgeted: false,
            begun: None,
        })
    }
}

/// Reads a session's current permissions.
pub(super) fn permissions(mode: Option<&str>, remembered: &str) -> Result<Permissions, StoreError> {
    Ok(Permissions {
        mode: mode.and_then(PermissionMode::parse),
        remembered: serde_json::from_str(remembered)
            .map_err(unreadable("sessions", "remembered"))?,
    })
}

/// Claimed runs.
#[derive(Debug, Default)]
pub struct Claims {
    /// Runs to drive.
    pub runs: Vec<Claimed>,
    /// Runs that this version cannot read. Another version may be able to, after their leases
    /// expire.
    pub unreadable: Vec<UnreadableRun>,
}

/// A claimed run that cannot be read.
#[derive(Debug, Clone, Copy)]
pub struct UnreadableRun {
    /// The fence, with which the run can be settled.
    pub fence: Fence,
    /// The session.
    pub session_id: SessionId,
    /// Claims since the last committed step, including this one.
    pub takeovers: i32,
}

impl Claims {
    /// A run that cannot be read must not block the others.
    fn of(rows: Vec<Row>, worker: WorkerId) -> Self {
        let mut claims = Self::default();
        for row in rows {
            let fence = Fence { run_id: row.id.into(), attempt: row.attempt, worker };
            let (session_id, takeovers) = (row.session_id.into(), row.takeovers);
            match row.claimed(worker) {
                Ok(run) => claims.runs.push(run),
                Err(error) => {
                    tracing::error!(run.id = %fence.run_id, %error, "claimed run cannot be read");
                    claims.unreadable.push(UnreadableRun { fence, session_id, takeovers });
                }
            }
        }
        claims
    }
}

/// Claims queued runs that are the first of their session, oldest first. `only` restricts the
/// choice to these runs.
pub async fn claim_queued(
    conn: &mut PgConnection,
    worker: WorkerId,
    only: Option<&[Uuid]>,
    limit: i64,
) -> Result<Claims, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"WITH run AS (
               UPDATE runs SET status = 'running', attempt = attempt + 1,
                      takeovers = takeovers + 1, lease_owner = $1,
                      lease_until = now() + make_interval(secs => $4),
                      started_at = coalesce(started_at, now())
               WHERE id IN (
                   SELECT r.id FROM runs r
                   WHERE r.status = 'queued' AND ($3::uuid[] IS NULL OR r.id = ANY ($3))
                     AND NOT EXISTS (
                       SELECT FROM runs o WHERE o.session_id = r.session_id
                         AND (o.status IN ('running', 'requires_action')
                              OR o.status = 'queued' AND o.accepted_seq < r.accepted_seq))
                   ORDER BY r.created_at
                   LIMIT $2
                   FOR UPDATE OF r SKIP LOCKED)
               RETURNING *
           )
           SELECT run.id, run.session_id, run.attempt, run.steps, run.takeovers, run.message_id,
                  run.input::text AS "input!", run.options::text AS "options!",
                  run.cancel_requested_at IS NOT NULL AS "is_cancelled!",
                  extract(epoch FROM now() - run.started_at - run.waited)::float8 AS "elapsed!",
                  s.settings::text AS "settings!", s.workspace, s.parent_session_id,
                  s.last_message_seq, s.permission_mode, s.remembered::text AS "remembered!"
           FROM run JOIN sessions s ON s.id = run.session_id"#,
        worker.as_uuid(),
        limit,
        only,
        LEASE.as_secs_f64(),
    )
    .fetch_all(conn)
    .await?;
    Ok(Claims::of(rows, worker))
}

/// Takes over runs whose lease has expired.
pub async fn claim_expired(
    conn: &mut PgConnection,
    worker: WorkerId,
    limit: i64,
) -> Result<Claims, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"WITH run AS (
               UPDATE runs SET attempt = attempt + 1, takeovers = takeovers + 1,
                      lease_owner = $1, lease_until = now() + make_interval(secs => $3)
               WHERE id IN (
                   SELECT r.id FROM runs r
                   WHERE r.status = 'running' AND r.lease_until < now()
                   ORDER BY r.lease_until
                   LIMIT $2
                   FOR UPDATE SKIP LOCKED)
               RETURNING *
           ), freed AS (
               -- The reply to a request of the earlier attempt will not be stored.
               DELETE FROM reservations r USING run WHERE r.run_id = run.id AND r.spent_at IS NULL
           )
           SELECT run.id, run.session_id, run.attempt, run.steps, run.takeovers, run.message_id,
                  run.input::text AS "input!", run.options::text AS "options!",
                  run.cancel_requested_at IS NOT NULL AS "is_cancelled!",
                  extract(epoch FROM now() - run.started_at - run.waited)::float8 AS "elapsed!",
                  s.settings::text AS "settings!", s.workspace, s.parent_session_id,
                  s.last_message_seq, s.permission_mode, s.remembered::text AS "remembered!"
           FROM run JOIN sessions s ON s.id = run.session_id"#,
        worker.as_uuid(),
        limit,
        LEASE.as_secs_f64(),
    )
    .fetch_all(conn)
    .await?;
    Ok(Claims::of(rows, worker))
}

/// Claims waiting runs whose answer has arrived or whose deadline has passed. Reaching the wait
/// counts as progress, so `takeovers` starts again.
pub async fn claim_woken(
    conn: &mut PgConnection,
    worker: WorkerId,
    limit: i64,
) -> Result<Claims, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"WITH run AS (
               UPDATE runs SET status = 'running', attempt = attempt + 1, takeovers = 1,
                      lease_owner = $1, lease_until = now() + make_interval(secs => $3),
                      waited = waited + coalesce(now() - waiting_since, '0'),
                      waiting_since = NULL, wake_at = NULL
               WHERE id IN (
                   SELECT r.id FROM runs r
                   WHERE r.status = 'requires_action' AND r.wake_at <= now()
                   ORDER BY r.wake_at
                   LIMIT $2
                   FOR UPDATE SKIP LOCKED)
               RETURNING *
           )
           SELECT run.id, run.session_id, run.attempt, run.steps, run.takeovers, run.message_id,
                  run.input::text AS "input!", run.options::text AS "options!",
                  run.cancel_requested_at IS NOT NULL AS "is_cancelled!",
                  extract(epoch FROM now() - run.started_at - run.waited)::float8 AS "elapsed!",
                  s.settings::text AS "settings!", s.workspace, s.parent_session_id,
                  s.last_message_seq, s.permission_mode, s.remembered::text AS "remembered!"
           FROM run JOIN sessions s ON s.id = run.session_id"#,
        worker.as_uuid(),
        limit,
        LEASE.as_secs_f64(),
    )
    .fetch_all(conn)
    .await?;
    Ok(Claims::of(rows, worker))
}

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

/// Releases the lease of a run, so that another worker takes it over at once. A failed run keeps
/// its count of takeovers without progress; a run whose worker shuts down does not.
pub async fn release(
    conn: &mut PgConnection,
    fence: Fence,
    has_failed: bool,
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE runs SET lease_until = now(), lease_owner = NULL,
                takeovers = CASE WHEN $4 THEN takeovers ELSE greatest(takeovers - 1, 0) END
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
