//! Deletion of sessions with all their rows.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::PgConnection;
use uuid::Uuid;

use super::{StoreError, budgets, change_feed, deleted_usage};
use crate::domain::ids::{RunId, SessionId, TenantId};

/// Time limit of a statement that deletes many rows. A session with hundreds of thousands of
/// messages takes seconds.
pub const DELETION_TIMEOUT: Duration = Duration::from_mins(2);

/// A session that is locked for its deletion.
#[derive(Debug)]
pub struct LockedSession {
    /// The ID.
    pub id: SessionId,
    /// The number of its newest event.
    pub last_seq: i64,
    /// True if the session has a workspace folder of its own.
    pub has_own_folder: bool,
    /// Its runs that have not settled, queued ones first: otherwise one of them would start when
    /// the active run ends.
    pub open: Vec<RunId>,
}

/// Finds those of the sessions that exist, with their unsettled runs. All of them stay locked until
/// the end of the caller's transaction: no message is accepted, and no run is claimed, budgeted or
/// settled. Rows are locked in the order of their IDs, as everywhere.
pub async fn lock(
    conn: &mut PgConnection,
    tenant: TenantId,
    ids: &[SessionId],
) -> Result<Vec<LockedSession>, StoreError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
    let sessions = sqlx::query!(
        r#"SELECT id, last_seq,
                  workspace IS NULL AND parent_session_id IS NULL AS "has_own_folder!"
           FROM sessions WHERE id = ANY ($1) AND tenant_id = $2
           ORDER BY id FOR UPDATE"#,
        &ids,
        tenant.as_uuid(),
    )
    .fetch_all(&mut *conn)
    .await?;
    let found: Vec<Uuid> = sessions.iter().map(|session| session.id).collect();
    let mut runs = sqlx::query!(
        r#"SELECT id, session_id, accepted_seq, status <> 'queued' AS "has_begun!"
           FROM runs
           WHERE session_id = ANY ($1) AND status IN ('queued', 'running', 'requires_action')
           ORDER BY id FOR UPDATE"#,
        &found,
    )
    .fetch_all(conn)
    .await?;
    runs.sort_by_key(|run| (run.has_begun, run.accepted_seq));
    let mut open = HashMap::<Uuid, Vec<RunId>>::new();
    for run in runs {
        open.entry(run.session_id).or_default().push(run.id.into());
    }
    let locked = sessions.into_iter().map(|session| LockedSession {
        id: session.id.into(),
        last_seq: session.last_seq,
        has_own_folder: session.has_own_folder,
        open: open.remove(&session.id).unwrap_or_default(),
    });
    Ok(locked.collect())
}

/// Counts the events of these sessions. The duration of a deletion follows from it.
pub async fn count_events(
    conn: &mut PgConnection,
    tenant: TenantId,
    ids: &[SessionId],
) -> Result<i64, StoreError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
    let events = sqlx::query_scalar!(
        r#"SELECT coalesce(sum(last_seq), 0)::bigint AS "events!"
           FROM sessions WHERE id = ANY ($1) AND tenant_id = $2"#,
        &ids,
        tenant.as_uuid(),
    )
    .fetch_one(conn)
    .await?;
    Ok(events)
}

/// Fences unsettled runs against their workers, for longer than a deletion takes, and returns how
/// many a worker held. The heartbeat of a worker must not wait for a row that is being deleted,
/// because it renews the leases of all the worker's runs. If the runs are not deleted after all,
/// another worker takes them over.
pub async fn fence_runs(conn: &mut PgConnection, runs: &[RunId]) -> Result<u64, StoreError> {
    let ids: Vec<Uuid> = runs.iter().map(|id| id.as_uuid()).collect();
    let done = sqlx::query!(
        "UPDATE runs SET attempt = attempt + 1, lease_owner = NULL,
                lease_until = now() + make_interval(secs => $2)
         WHERE id = ANY ($1) AND status = 'running' AND lease_owner IS NOT NULL",
        &ids,
        (2 * DELETION_TIMEOUT).as_secs_f64(),
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Raises the timeouts of the caller's transaction, which also works on files between its
/// statements.
pub async fn raise_timeouts(conn: &mut PgConnection) -> Result<(), StoreError> {
    sqlx::query!(
        "SELECT set_config('statement_timeout', $1, true) AS statement,
                -- Concurrent deletions wait for each other's sums for a moment; nothing else does.
                set_config('lock_timeout', $1, true) AS lock,
                set_config('idle_in_transaction_session_timeout', '10s', true) AS idle",
        DELETION_TIMEOUT.as_millis().to_string(),
    )
    .fetch_one(conn)
    .await?;
    Ok(())
}

/// Deletes locked sessions that have no forks besides each other. The usage of their requests stays
/// in the sums of their owner.
///
/// Nothing waits long for a deletion: the sums, to which other deletions of the same owner add as
/// well, are written last. All other rows are deleted by a trigger and by cascades, because the roles
/// may not delete messages and events directly (`migrations/0039_deletion_of_sessions.sql`).
pub async fn delete(
    conn: &mut PgConnection,
    tenant: TenantId,
    sessions: &[SessionId],
) -> Result<(), StoreError> {
    let ids: Vec<Uuid> = sessions.iter().map(|id| id.as_uuid()).collect();
    keep_spending(conn, tenant, &ids).await?;
    // References from forks must not block the deletion of their sources.
    sqlx::query!("DELETE FROM inherited WHERE session_id = ANY ($1)", &ids)
        .execute(&mut *conn)
        .await?;
    let sums = deleted_usage::take(conn, &ids).await?;
    change_feed::note_deletion(conn, tenant, &ids).await?;
    sqlx::query!("DELETE FROM sessions WHERE id = ANY ($1)", &ids).execute(&mut *conn).await?;
    deleted_usage::add(conn, &sums).await
}

/// Adds the spending of the runs to the budgets of their owner. The caller has just done so in a
/// separate transaction, so that only spending since then is left here. Otherwise the budgets,
/// which every model request of this owner needs, would stay locked until the deletion ends.
async fn keep_spending(
    conn: &mut PgConnection,
    tenant: TenantId,
    ids: &[Uuid],
) -> Result<(), StoreError> {
    let is_left = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM runs u JOIN reservations r ON r.run_id = u.id
                          WHERE u.session_id = ANY ($1) AND r.spent_at IS NOT NULL) AS "is_left!""#,
        ids,
    )
    .fetch_one(&mut *conn)
    .await?;
    if is_left {
        // The same lock order as setting a budget.
        sqlx::query!("LOCK TABLE requests IN ROW EXCLUSIVE MODE").execute(&mut *conn).await?;
        budgets::add_up_spent(conn, tenant).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::WorkerId;
    use crate::store::leases::renew;
    use crate::store::testing::{TestDatabase, database};
    use sqlx::{Connection as _, Executor as _, PgPool};

    const OWNER: TenantId = TenantId::DEFAULT;

    /// Sessions with a claimed run each, created in an order that differs from that of the rows.
    async fn bed(worker: WorkerId) -> (TestDatabase, PgPool, [(SessionId, RunId); 2]) {
        let database = database().await;
        let pool = database.pool(3);
        let mut sessions = [(); 2].map(|()| (SessionId::new(), RunId::new()));
        for (session, run) in sessions.iter().rev() {
            sqlx::query(
                "INSERT INTO sessions (id, tenant_id, model, settings) VALUES ($1, $2, 'm', '{}')",
            )
            .bind(session.as_uuid())
            .bind(OWNER.as_uuid())
            .execute(&pool)
            .await
            .unwrap();
            sqlx::query(
                "INSERT INTO runs (id, session_id, tenant_id, status, accepted_seq, message_id,
                                   input, fingerprint, attempt, lease_owner, lease_until)
                 VALUES ($1, $2, $3, 'running', 1, 'm', '[]', '', 1, $4, now() + interval '1 s')",
            )
            .bind(run.as_uuid())
            .bind(session.as_uuid())
            .bind(OWNER.as_uuid())
            .bind(worker.as_uuid())
            .execute(&pool)
            .await
            .unwrap();
        }
        sessions.sort();
        (database, pool, sessions)
    }

    #[tokio::test]
    async fn leases_are_renewed_while_a_running_run_is_deleted() {
        let worker = WorkerId::new();
        let (_database, pool, [(session, run), (_, other)]) = bed(worker).await;
        let mut heart = pool.acquire().await.unwrap();
        heart.execute("SET lock_timeout = '200ms'").await.unwrap();
        let mut conn = pool.acquire().await.unwrap();
        assert_eq!(fence_runs(&mut conn, &[run]).await.unwrap(), 1);
        assert_eq!(fence_runs(&mut conn, &[run]).await.unwrap(), 0, "no worker holds it");

        let mut transaction = conn.begin().await.unwrap();
        let locked = lock(&mut transaction, OWNER, &[session]).await.unwrap();
        assert_eq!(locked[0].open, [run]);
        delete(&mut transaction, OWNER, &[session]).await.unwrap();
        let leases = renew(&mut heart, worker, &[run, other]).await.unwrap();
        let renewed = leases.iter().filter(|lease| lease.is_renewed).map(|lease| lease.run_id);
        assert_eq!(renewed.collect::<Vec<_>>(), [other]);
        transaction.commit().await.unwrap();
    }
}
