//! Claims of runs. All times are the database's.

use std::time::Duration;

use sqlx::PgConnection;
use uuid::Uuid;

use super::model_settings::settings_of;
use super::{StoreError, unreadable};
use crate::domain::claim::{Claimed, Fence, LEASE, Permissions};
use crate::domain::ids::{SessionId, WorkerId};
use crate::domain::permission::PermissionMode;
use crate::domain::suspicion::{CRASH_LOOP_AFTER, FIRST_BACKOFF, SUSPECTED_AFTER, Suspicion};

struct Row {
    id: Uuid,
    tenant_id: Uuid,
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
    /// The JSON of the model settings; null for the pinned ones.
    model_settings: Option<String>,
    workspace: Option<String>,
    parent_session_id: Option<Uuid>,
    is_fork: bool,
    last_message_seq: i32,
    permission_mode: Option<String>,
    remembered: String,
}

impl Row {
    fn claimed(self, worker: WorkerId) -> Result<Claimed, StoreError> {
        let model_settings = self.model_settings.as_deref().filter(|text| *text != "null");
        let (settings, model_settings) = settings_of(&self.settings, model_settings)?;
        Ok(Claimed {
            fence: Fence { run_id: self.id.into(), attempt: self.attempt, worker },
            tenant: self.tenant_id.into(),
            session_id: self.session_id.into(),
            settings,
            model_settings,
            workspace: self.workspace,
            parent_session: self.parent_session_id.map(Into::into),
            is_fork: self.is_fork,
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
    /// Workers that died while they held the run, since its last step with progress.
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

/// Claims queued runs in the order of the view `run_queue`: the tenants take turns.
///
/// The first worker of a run has not taken it from another one, so this is not a takeover.
pub async fn claim_queued(
    conn: &mut PgConnection,
    worker: WorkerId,
    limit: i64,
) -> Result<Claims, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"WITH run AS (
               UPDATE runs SET status = 'running', attempt = attempt + 1, lease_owner = $1,
                      lease_until = now() + make_interval(secs => $3),
                      started_at = coalesce(started_at, now())
               WHERE id IN (
                   SELECT free.id
                   FROM (SELECT id FROM run_queue ORDER BY position) AS q, LATERAL (
                       SELECT r.id FROM runs r
                       -- Checked again when the row is locked: another worker may have claimed it.
                       -- As it is written, only the primary key fits. The planner would otherwise
                       -- search the queued runs for each of them, if its statistics know of few.
                       WHERE r.id = q.id AND CASE r.status WHEN 'queued' THEN true ELSE false END
                       FOR UPDATE SKIP LOCKED
                   ) AS free
                   LIMIT $2)
               RETURNING *
           ), served AS (
               -- A tenant that is locked is being served by another worker.
               UPDATE tenants SET served_at = now() WHERE id IN (
                   SELECT t.id FROM tenants t WHERE t.id IN (SELECT tenant_id FROM run)
                   FOR NO KEY UPDATE SKIP LOCKED)
           )
           SELECT run.id, run.tenant_id, run.session_id, run.attempt, run.steps, run.takeovers, run.message_id,
                  run.input::text AS "input!", run.options::text AS "options!",
                  run.cancel_requested_at IS NOT NULL AS "is_cancelled!",
                  extract(epoch FROM now() - run.started_at - run.waited)::float8 AS "elapsed!",
                  s.settings::text AS "settings!", s.model_settings::text, s.workspace,
                  s.parent_session_id,
                  s.forked_from IS NOT NULL AS "is_fork!",
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

/// Takes over runs whose lease has expired, of one degree of suspicion.
///
/// A run without an owner was released, which is not a takeover. Suspects pause between their claims,
/// and those with the fewest deaths are claimed first. A cancelled run is only settled, so it is not
/// treated as a suspect.
pub async fn claim_expired(
    conn: &mut PgConnection,
    worker: WorkerId,
    suspicion: Suspicion,
    limit: i64,
) -> Result<Claims, StoreError> {
    let takeovers = suspicion.takeovers();
    let rows = sqlx::query_as!(
        Row,
        r#"WITH run AS (
               UPDATE runs SET attempt = attempt + 1,
                      takeovers = takeovers + CASE WHEN lease_owner IS NULL THEN 0 ELSE 1 END,
                      lease_owner = $1, lease_until = now() + make_interval(secs => $3)
               WHERE id IN (
                   SELECT r.id FROM runs r, LATERAL (
                       SELECT r.takeovers + CASE WHEN r.lease_owner IS NULL THEN 0 ELSE 1 END
                   ) AS after_this (takeovers), LATERAL (
                       SELECT CASE WHEN r.cancel_requested_at IS NOT NULL
                                        AND after_this.takeovers < $6 THEN 0
                                   ELSE after_this.takeovers END
                   ) AS counted (takeovers)
                   WHERE r.lease_until < now()
                     AND counted.takeovers BETWEEN $4 AND $5
                     AND (counted.takeovers < $7 OR counted.takeovers >= $6
                          OR r.lease_until
                             + make_interval(secs => $8 * 2 ^ least(counted.takeovers - $7, 9))
                             < now())
                   ORDER BY counted.takeovers, r.lease_until
                   LIMIT $2
                   FOR UPDATE OF r SKIP LOCKED)
               RETURNING *
           ), freed AS (
               -- The reply to a request of the earlier attempt will not be stored.
               DELETE FROM reservations r USING run WHERE r.run_id = run.id AND r.spent_at IS NULL
           )
           SELECT run.id, run.tenant_id, run.session_id, run.attempt, run.steps, run.takeovers, run.message_id,
                  run.input::text AS "input!", run.options::text AS "options!",
                  run.cancel_requested_at IS NOT NULL AS "is_cancelled!",
                  extract(epoch FROM now() - run.started_at - run.waited)::float8 AS "elapsed!",
                  s.settings::text AS "settings!",
                  -- The whole run has the settings of its first answered request.
                  coalesce((SELECT coalesce(q.form->'model_settings', 'null') FROM requests q
                            WHERE q.session_id = run.session_id AND q.run_id = run.id
                              AND q.stop_reason IS NOT NULL
                            ORDER BY q.n LIMIT 1), s.model_settings)::text AS model_settings,
                  s.workspace, s.parent_session_id,
                  s.forked_from IS NOT NULL AS "is_fork!",
                  s.last_message_seq, s.permission_mode, s.remembered::text AS "remembered!"
           FROM run JOIN sessions s ON s.id = run.session_id"#,
        worker.as_uuid(),
        limit,
        LEASE.as_secs_f64(),
        takeovers.start(),
        takeovers.end(),
        CRASH_LOOP_AFTER,
        SUSPECTED_AFTER,
        FIRST_BACKOFF.as_secs_f64(),
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
               UPDATE runs SET status = 'running', attempt = attempt + 1, takeovers = 0,
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
           SELECT run.id, run.tenant_id, run.session_id, run.attempt, run.steps, run.takeovers, run.message_id,
                  run.input::text AS "input!", run.options::text AS "options!",
                  run.cancel_requested_at IS NOT NULL AS "is_cancelled!",
                  extract(epoch FROM now() - run.started_at - run.waited)::float8 AS "elapsed!",
                  s.settings::text AS "settings!",
                  -- The whole run has the settings of its first answered request.
                  coalesce((SELECT coalesce(q.form->'model_settings', 'null') FROM requests q
                            WHERE q.session_id = run.session_id AND q.run_id = run.id
                              AND q.stop_reason IS NOT NULL
                            ORDER BY q.n LIMIT 1), s.model_settings)::text AS model_settings,
                  s.workspace, s.parent_session_id,
                  s.forked_from IS NOT NULL AS "is_fork!",
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
