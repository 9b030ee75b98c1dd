//! The queue of all tenants: its length, and the order in which workers claim its runs.

use jiff_sqlx::{Timestamp, ToSqlx as _};
use sqlx::PgConnection;

use super::StoreError;
use crate::domain::explanation::RunQueuePosition;
use crate::domain::ids::{RunId, SessionId, TenantId};

/// The queued runs of one tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantQueue {
    /// The tenant.
    pub tenant: TenantId,
    /// Its queued runs.
    pub length: i64,
    /// Those of them that were queued at the earlier time already.
    pub earlier: i64,
}

/// A count of queued runs.
#[derive(Debug)]
pub struct QueueCount {
    /// The time of the count.
    pub at: jiff::Timestamp,
    /// True if several tenants have sessions.
    pub is_shared: bool,
    /// The tenants with queued runs.
    pub tenants: Vec<TenantQueue>,
}

/// Counts the queued runs of all tenants, and those of them that were accepted up to `since`.
pub async fn count_queued(
    conn: &mut PgConnection,
    since: jiff::Timestamp,
) -> Result<QueueCount, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT now() AS "at!: Timestamp",
                  (SELECT count(*) > 1 FROM (
                      SELECT FROM tenants t
                      WHERE EXISTS (SELECT FROM sessions s WHERE s.tenant_id = t.id)
                      LIMIT 2) AS several) AS "is_shared!",
                  q.tenant_id AS "tenant_id?", q.length AS "length?", q.earlier AS "earlier?"
           FROM (VALUES (1)) AS always (present)
           LEFT JOIN (
               SELECT tenant_id, count(*) AS length,
                      count(*) FILTER (WHERE created_at <= $1) AS earlier
               FROM runs WHERE status = 'queued' GROUP BY tenant_id) AS q ON true"#,
        since.to_sqlx() as _,
    )
    .fetch_all(conn)
    .await?;
    let mut count = QueueCount { at: since, is_shared: false, tenants: Vec::new() };
    for row in rows {
        (count.at, count.is_shared) = (row.at.to_jiff(), row.is_shared);
        if let (Some(tenant), Some(length), Some(earlier)) =
            (row.tenant_id, row.length, row.earlier)
        {
            count.tenants.push(TenantQueue { tenant: tenant.into(), length, earlier });
        }
    }
    Ok(count)
}

/// A queued run that no earlier run of its session blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedRun {
    /// The run.
    pub run_id: RunId,
    /// Its session.
    pub session_id: SessionId,
    /// Its position in the order of claims, from 1.
    pub position: i64,
}

/// The queue of all tenants.
#[derive(Debug, Default)]
pub struct RunQueue {
    /// The number of queued runs, including those that an earlier run of their session blocks.
    pub length: i64,
    /// The time for which the oldest of them has waited, in seconds.
    pub oldest_seconds: f64,
    /// The runs that can start.
    pub runs: Vec<QueuedRun>,
}

/// Reads the queue of all tenants, in the order of claims.
pub async fn list(conn: &mut PgConnection) -> Result<RunQueue, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT whole.length AS "length!", whole.oldest AS "oldest!",
                  q.id AS "id?", q.session_id AS "session_id?", q.position AS "position?"
           FROM (SELECT count(*) AS length,
                        coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS oldest
                 FROM runs WHERE status = 'queued') AS whole
           LEFT JOIN run_queue q ON whole.length > 0
           ORDER BY q.position"#,
    )
    .fetch_all(conn)
    .await?;
    let mut queue = RunQueue::default();
    for row in rows {
        (queue.length, queue.oldest_seconds) = (row.length, row.oldest);
        if let (Some(id), Some(session_id), Some(position)) = (row.id, row.session_id, row.position)
        {
            let (run_id, session_id) = (id.into(), session_id.into());
            queue.runs.push(QueuedRun { run_id, session_id, position });
        }
    }
    Ok(queue)
}

/// Finds the position of a run; none if it cannot start yet or has started.
pub async fn find_position(
    conn: &mut PgConnection,
    run_id: RunId,
) -> Result<Option<RunQueuePosition>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT position AS "position!",
                  (SELECT count(*) FROM runs WHERE status = 'queued') AS "length!"
           FROM run_queue WHERE id = $1"#,
        run_id.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| RunQueuePosition { position: row.position, length: row.length }))
}
