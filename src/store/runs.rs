//! Runs as clients see them, and their cancellation.

use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use super::decisions::list_pending;
use super::{StoreError, run_log, unreadable};
use crate::domain::call_end::RunEnd;
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::outcome::Outcome;
use crate::domain::page::Slice;
use crate::domain::run::Run;
use crate::domain::run_log::RunLog;
use crate::domain::run_status::RunStatus;

const TABLE: &str = "runs";

row_with_usage! {
    struct Row {
        id: Uuid,
        session_id: Uuid,
        message_id: String,
        retry_of: Option<String>,
        status: String,
        accepted_seq: i64,
        seq: i64,
        queue_position: Option<i64>,
        outcome: Option<String>,
        imported: bool,
        model_requests: i32,
        created_at: Timestamp,
        started_at: Option<Timestamp>,
        finished_at: Option<Timestamp>,
    }
}

impl TryFrom<Row> for Run {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.id.into(),
            session_id: row.session_id.into(),
            message_id: row.message_id,
            retry_of: row.retry_of.as_deref().and_then(|id| id.parse().ok()),
            status: RunStatus::parse(&row.status)
                .ok_or_else(|| unreadable(TABLE, "status")(&row.status))?,
            accepted_seq: row.accepted_seq,
            seq: row.seq,
            queue_position: row.queue_position,
            pending: Vec::new(),
            log: RunLog::default(),
            outcome: row
                .outcome
                .map(|text| serde_json::from_str(&text).map_err(unreadable(TABLE, "outcome")))
                .transpose()?,
            is_imported: row.imported,
            model_requests: row.model_requests,
            usage: usage_of!(row),
            cost: row.cost,
            created_at: row.created_at.to_jiff(),
            started_at: row.started_at.map(Timestamp::to_jiff),
            finished_at: row.finished_at.map(Timestamp::to_jiff),
        })
    }
}

/// A selection of the runs of a session.
#[derive(Debug, Clone, Copy)]
pub struct RunFilter {
    /// The owner.
    pub tenant: TenantId,
    /// The session.
    pub session_id: SessionId,
    /// Only this run.
    pub only: Option<RunId>,
    /// Only runs with this status.
    pub status: Option<RunStatus>,
    /// The page, by the numbers of the events that accepted the runs.
    pub slice: Slice<i64>,
}

/// Lists runs of a session, in the order of their acceptance.
pub async fn list(conn: &mut PgConnection, filter: RunFilter) -> Result<Vec<Run>, StoreError> {
    let rows = query_with_usage!(
        Row,
        r#"SELECT r.id, r.session_id, r.message_id, r.options ->> 'retry_of' AS retry_of, r.status, r.accepted_seq,
                  (SELECT s.last_seq FROM sessions s WHERE s.id = r.session_id) AS "seq!",
                  CASE WHEN r.status = 'queued' THEN (
                      SELECT count(*) FROM runs earlier
                      WHERE earlier.session_id = r.session_id AND earlier.status = 'queued'
                        AND earlier.accepted_seq <= r.accepted_seq) END AS queue_position,
                  r.outcome::text, r.imported, r.model_requests,
                  r.created_at AS "created_at: Timestamp",
                  r.started_at AS "started_at: Timestamp",
                  r.finished_at AS "finished_at: Timestamp", "#
            + USAGE
            + "
           FROM runs r
           WHERE r.session_id = $1 AND r.tenant_id = $2
             AND ($3::uuid IS NULL OR r.id = $3)
             AND ($4::text IS NULL OR r.status = $4)
             AND ($5::bigint IS NULL
                  OR CASE WHEN $6 THEN r.accepted_seq > $5 ELSE r.accepted_seq < $5 END)
           ORDER BY CASE WHEN $6 THEN r.accepted_seq ELSE -r.accepted_seq END
           LIMIT $7",
        filter.session_id.as_uuid(),
        filter.tenant.as_uuid(),
        filter.only.map(RunId::as_uuid),
        filter.status.map(RunStatus::as_str),
        filter.slice.from,
        filter.slice.is_upwards,
        filter.slice.limit,
    )
    .fetch_all(&mut *conn)
    .await?;
    let rows = filter.slice.in_order(rows);
    let mut runs: Vec<Run> = rows.into_iter().map(Run::try_from).collect::<Result<_, _>>()?;
    // At most one run of a session waits.
    if let Some(run) = runs.iter_mut().find(|run| run.status == RunStatus::RequiresAction) {
        run.pending = list_pending(conn, filter.tenant, filter.session_id).await?;
    }
    Ok(runs)
}

/// The session of a run.
pub async fn session_of(
    conn: &mut PgConnection,
    tenant: TenantId,
    run_id: RunId,
) -> Result<Option<SessionId>, StoreError> {
    let session_id = sqlx::query_scalar!(
        "SELECT session_id FROM runs WHERE id = $1 AND tenant_id = $2",
        run_id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(session_id.map(Into::into))
}

/// Finds a run of a session, including its tool calls.
pub async fn find(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    id: RunId,
) -> Result<Option<Run>, StoreError> {
    let slice = Slice::first(1);
    let filter = RunFilter { tenant, session_id, only: Some(id), status: None, slice };
    let Some(mut run) = list(conn, filter).await?.pop() else { return Ok(None) };
    // A completed run with a single request has called no tool.
    if run.status != RunStatus::Completed || run.model_requests > 1 {
        run.log = run_log::find(conn, id).await?;
    }
    Ok(Some(run))
}

/// Returns true if a run waits for answers of the client.
pub async fn waits_for_client(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    id: RunId,
) -> Result<bool, StoreError> {
    let slice = Slice::first(1);
    let filter = RunFilter { tenant, session_id, only: Some(id), status: None, slice };
    let run = list(conn, filter).await?.pop();
    Ok(run.is_some_and(|run| run.status == RunStatus::RequiresAction && run.is_idle()))
}

/// The state of a run when its cancellation was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancellation {
    /// A worker holds the run and was asked to stop.
    Requested,
    /// No worker holds the run. A worker can claim it at once and settle it.
    Unclaimed,
    /// Cancellation was requested before.
    Repeated,
    /// The run has not started and can be settled at once.
    Queued,
    /// The run has settled.
    Settled,
}

/// Requests the cancellation of a run. The run and its session stay locked until the end of the
/// caller's transaction, so that no worker claims or settles the run in between. The session is
/// locked first, as everywhere.
///
/// A run that waits for the client has no worker, and only a worker can answer its open calls: it
/// becomes claimable at once. Reaching the wait was progress, so its takeovers start again at zero.
pub async fn request_cancel(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    id: RunId,
    by: RunEnd,
) -> Result<Option<Cancellation>, StoreError> {
    let row = sqlx::query!(
        r#"WITH locked AS (
               SELECT id FROM sessions WHERE id = $2 AND tenant_id = $3 FOR NO KEY UPDATE
           )
           UPDATE runs SET
               cancel_requested_at = coalesce(cancel_requested_at, now()),
               cancelled_by = CASE WHEN cancel_requested_at IS NULL THEN $4 ELSE cancelled_by END,
               status = CASE status WHEN 'requires_action' THEN 'running' ELSE status END,
               lease_owner = CASE WHEN status <> 'requires_action' THEN lease_owner END,
               lease_until = CASE status WHEN 'requires_action' THEN now() ELSE lease_until END,
               takeovers = CASE status WHEN 'requires_action' THEN 0 ELSE takeovers END,
               wake_at = NULL, waiting_since = NULL,
               waited = waited + coalesce(now() - waiting_since, '0')
           FROM locked
           WHERE runs.id = $1 AND session_id = locked.id
           RETURNING status, lease_owner IS NOT NULL AS "is_held!",
                     cancel_requested_at = now() AS "is_first!""#,
        id.as_uuid(),
        session_id.as_uuid(),
        tenant.as_uuid(),
        by.as_str(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| match RunStatus::parse(&row.status) {
        Some(RunStatus::Running | RunStatus::RequiresAction) => match (row.is_first, row.is_held) {
            (true, true) => Cancellation::Requested,
            (true, false) => Cancellation::Unclaimed,
            (false, _) => Cancellation::Repeated,
        },
        Some(RunStatus::Queued) => Cancellation::Queued,
        Some(RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled) | None => {
            Cancellation::Settled
        }
    }))
}

/// Finds the active run of a session. The session stays locked until the end of the caller's
/// transaction, so that the run does not settle in between.
pub async fn lock_live(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
) -> Result<Option<RunId>, StoreError> {
    // A separate statement: the next one sees what was committed while this one waited for the
    // lock.
    sqlx::query!(
        "SELECT id FROM sessions WHERE id = $1 AND tenant_id = $2 FOR NO KEY UPDATE",
        session_id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(&mut *conn)
    .await?;
    let live = sqlx::query_scalar!(
        "SELECT id FROM runs
         WHERE session_id = $1 AND tenant_id = $2 AND status IN ('running', 'requires_action')",
        session_id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(live.map(Into::into))
}

/// Finds the run that makes a session busy: the active run, otherwise the first queued one. A run
/// that settled a moment ago counts: it was the one that blocked the message.
pub async fn find_busy(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
) -> Result<Option<RunId>, StoreError> {
    let busy = sqlx::query_scalar!(
        "SELECT coalesce(
             (SELECT id FROM runs r WHERE r.session_id = s.id
                AND status IN ('running', 'requires_action')),
             (SELECT id FROM runs r WHERE r.session_id = s.id AND status = 'queued'
              ORDER BY accepted_seq LIMIT 1),
             (SELECT id FROM runs r WHERE r.session_id = s.id
              ORDER BY accepted_seq DESC LIMIT 1))
         FROM sessions s WHERE s.id = $1 AND s.tenant_id = $2",
        session_id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(busy.flatten().map(Into::into))
}

/// Settles a run that has not started. Its message does not enter the history.
pub async fn cancel_queued(
    conn: &mut PgConnection,
    id: RunId,
    outcome: &Outcome,
) -> Result<bool, StoreError> {
    let outcome = serde_json::to_string(outcome).map_err(unreadable(TABLE, "outcome"))?;
    let done = sqlx::query!(
        "WITH run AS (
             UPDATE runs SET status = 'cancelled', finished_at = now(), outcome = ($2::text)::json
             WHERE id = $1 AND status = 'queued'
             RETURNING session_id
         )
         UPDATE sessions s SET queued = s.queued - 1 FROM run WHERE s.id = run.session_id",
        id.as_uuid(),
        outcome,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}
