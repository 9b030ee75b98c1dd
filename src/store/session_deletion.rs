//! Deleting sessions with all that belongs to them.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::PgConnection;
use uuid::Uuid;

use super::{StoreError, budgets, deleted_usage};
use crate::domain::ids::{RunId, SessionId, TenantId};

/// How long a statement may take that deletes much. A session with hundreds of thousands of messages
/// takes seconds.
pub const DELETES_WITHIN: Duration = Duration::from_mins(2);

/// A session that is about to be deleted.
#[derive(Debug)]
pub struct Doomed {
    /// Which.
    pub id: SessionId,
    /// The number of its newest event.
    pub last_seq: i64,
    /// Whether the folder that it works in is one of its own.
    pub has_own_folder: bool,
    /// Its runs that have not settled; those that wait come first, or one of them would begin when
    /// the live one ends.
    pub open: Vec<RunId>,
}

/// Finds those of these sessions that are there, with their open runs, which all stay locked for the
/// rest of the caller's transaction: no message is accepted, and no run is taken up, reserved for or
/// settled. In the order of their ids, as everybody locks several of them.
pub async fn lock(
    conn: &mut PgConnection,
    tenant: TenantId,
    ids: &[SessionId],
) -> Result<Vec<Doomed>, StoreError> {
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
    let doomed = sessions.into_iter().map(|session| Doomed {
        id: session.id.into(),
        last_seq: session.last_seq,
        has_own_folder: session.has_own_folder,
        open: open.remove(&session.id).unwrap_or_default(),
    });
    Ok(doomed.collect())
}

/// How many events these sessions have. How long it takes to delete them follows from it.
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

/// Takes runs that have not settled away from their workers, for longer than a deletion takes, and
/// says how many had one. A worker that renews its leases must not wait for a row that is being
/// deleted: all of its runs would. If the runs are not deleted, another worker goes on with them.
pub async fn take_away(conn: &mut PgConnection, runs: &[RunId]) -> Result<u64, StoreError> {
    let ids: Vec<Uuid> = runs.iter().map(|id| id.as_uuid()).collect();
    let done = sqlx::query!(
        "UPDATE runs SET attempt = attempt + 1, lease_owner = NULL,
                lease_until = now() + make_interval(secs => $2)
         WHERE id = ANY ($1) AND status = 'running' AND lease_owner IS NOT NULL",
        &ids,
        (2 * DELETES_WITHIN).as_secs_f64(),
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Lets the caller's transaction take its time: between its statements files are noted.
pub async fn be_patient(conn: &mut PgConnection) -> Result<(), StoreError> {
    sqlx::query!(
        "SELECT set_config('statement_timeout', $1, true) AS statement,
                -- Two who delete wait for each other's sums for a moment, and nobody else does.
                set_config('lock_timeout', $1, true) AS lock,
                set_config('idle_in_transaction_session_timeout', '10s', true) AS idle",
        DELETES_WITHIN.as_millis().to_string(),
    )
    .fetch_one(conn)
    .await?;
    Ok(())
}

/// Deletes sessions that are locked, and of which no other is a fork. What their requests used stays
/// in the sums of their owner.
///
/// Nobody waits for it: the sums, which others who delete of the same owner add to as well, are
/// written last. Events go with their session, because nobody may take them otherwise.
pub async fn delete(
    conn: &mut PgConnection,
    tenant: TenantId,
    sessions: &[SessionId],
) -> Result<(), StoreError> {
    let ids: Vec<Uuid> = sessions.iter().map(|id| id.as_uuid()).collect();
    keep_spending(conn, tenant, &ids).await?;
    // What forks refer to must not be in the way of their sources.
    sqlx::query!("DELETE FROM inherited WHERE session_id = ANY ($1)", &ids)
        .execute(&mut *conn)
        .await?;
    // Messages and calls go with them.
    sqlx::query!("DELETE FROM runs WHERE session_id = ANY ($1)", &ids).execute(&mut *conn).await?;
    let sums = deleted_usage::take(conn, &ids).await?;
    // All other rows go with them.
    sqlx::query!("DELETE FROM sessions WHERE id = ANY ($1)", &ids).execute(&mut *conn).await?;
    deleted_usage::add(conn, &sums).await
}

/// Adds what the runs have spent to the budgets of their owner. Who deletes has just done so, in a
/// transaction of its own: here something is left only if it was spent in between. Else the budgets,
/// without which nobody of this owner can ask the model, would be locked until all is deleted.
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
        // The order of who sets a budget.
        sqlx::query!("LOCK TABLE requests IN ROW EXCLUSIVE MODE").execute(&mut *conn).await?;
        budgets::add_up_spent(conn, tenant).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::WorkerId;
    use crate::store::claim::renew;
    use crate::store::testing::{TestDatabase, database};
    use sqlx::{Connection as _, Executor as _, PgPool};

    const OWNER: TenantId = TenantId::DEFAULT;

    /// Sessions with a run each that a worker has, and which rows come first is none of their order.
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
    async fn leases_are_renewed_while_a_run_is_deleted_that_did_not_stop() {
        let worker = WorkerId::new();
        let (_database, pool, [(session, run), (_, other)]) = bed(worker).await;
        let mut heart = pool.acquire().await.unwrap();
        heart.execute("SET lock_timeout = '200ms'").await.unwrap();
        let mut conn = pool.acquire().await.unwrap();
        assert_eq!(take_away(&mut conn, &[run]).await.unwrap(), 1);
        assert_eq!(take_away(&mut conn, &[run]).await.unwrap(), 0, "nobody has it");

        let mut transaction = conn.begin().await.unwrap();
        let doomed = lock(&mut transaction, OWNER, &[session]).await.unwrap();
        assert_eq!(doomed[0].open, [run]);
        delete(&mut transaction, OWNER, &[session]).await.unwrap();
        let renewed = renew(&mut heart, worker, &[run, other]).await.unwrap();
        assert_eq!(renewed.iter().map(|run| run.run_id).collect::<Vec<_>>(), [other]);
        transaction.commit().await.unwrap();
    }

    #[tokio::test]
    async fn who_deletes_and_who_renews_lock_runs_in_one_order() {
        let worker = WorkerId::new();
        let (_database, pool, sessions) = bed(worker).await;
        let [first, second] = sessions.map(|(_, run)| run);
        let mut deletes = pool.begin().await.unwrap();
        let row = "SELECT FROM runs WHERE id = $1 FOR UPDATE NOWAIT";
        sqlx::query(row).bind(first.as_uuid()).execute(&mut *deletes).await.unwrap();
        let mut heart = pool.acquire().await.unwrap();
        let held = [second, first];
        let beat = renew(&mut heart, worker, &held);
        let deletion = async {
            let waiting = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock'";
            while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&pool).await.unwrap() < 1 {}
            // Whoever waits for the first does not have the second.
            sqlx::query(row).bind(second.as_uuid()).execute(&mut *deletes).await.unwrap();
            deletes.rollback().await.unwrap();
        };
        let (renewed, ()) = tokio::join!(beat, deletion);
        assert_eq!(renewed.unwrap().len(), 2);
    }
}
