//! Statements that read few rows whatever the statistics of the tables say. After a change of the load the
//! statistics are old until the next automatic analysis.

use sqlx::{Executor as _, PgConnection};
use uuid::Uuid;

use super::*;
use crate::store::leases::expire;
use crate::store::run_queue::{find_position, list};
use crate::store::{PoolRole, pool};

/// The number of queued runs, and of running ones.
const RUNS: i64 = 300;
/// The number of settled runs.
const SETTLED: i64 = 1_000;
/// The most rows that a statement may read: each live run a few times, and small tables as a whole. It
/// reads 90,000 if it compares each queued run with each other one.
const MOST: i64 = 30 * RUNS;

/// Sessions with a queued run, and sessions with a running one, of a bed whose statistics are from the
/// time before: settled runs, and no other.
async fn crowded() -> Bed {
    let bed = bed().await;
    for table in ["runs", "sessions", "tenants"] {
        let off = format!("ALTER TABLE {table} SET (autovacuum_enabled = false)");
        bed.pool.execute(sqlx::AssertSqlSafe(off)).await.unwrap();
    }
    insert(&bed, SETTLED, "completed").await;
    bed.pool.execute("ANALYZE sessions, runs, tenants").await.unwrap();
    insert(&bed, RUNS, "queued").await;
    insert(&bed, RUNS, "running").await;
    bed
}

/// Inserts sessions with one run each.
async fn insert(bed: &Bed, count: i64, status: &str) {
    let insert = "WITH session AS (
                      INSERT INTO sessions (id, tenant_id, model, settings, metadata)
                      SELECT gen_random_uuid(), tenant_id, model, settings, metadata
                      FROM sessions, generate_series(1, $2) WHERE id = $1
                      RETURNING id, tenant_id
                  )
                  INSERT INTO runs (id, session_id, tenant_id, status, accepted_seq, message_id, input,
                                    fingerprint, lease_owner, lease_until, finished_at)
                  SELECT gen_random_uuid(), id, tenant_id, $3, 1, 'm', '[]', '',
                         CASE $3 WHEN 'running' THEN gen_random_uuid() END,
                         CASE $3 WHEN 'running' THEN now() + interval '1 hour' END,
                         CASE $3 WHEN 'completed' THEN now() END
                  FROM session";
    let query = sqlx::query(insert).bind(bed.session.as_uuid()).bind(count).bind(status);
    assert_eq!(query.execute(&bed.pool).await.unwrap().rows_affected(), count.unsigned_abs());
}

/// The number of rows and index entries of runs, sessions and tenants that the current transaction has
/// read.
async fn rows_read(conn: &mut PgConnection) -> i64 {
    sqlx::query_scalar(
        "SELECT (SELECT sum(seq_tup_read) FROM pg_stat_xact_user_tables
                 WHERE relname IN ('runs', 'sessions', 'tenants'))::bigint
              + (SELECT sum(pg_stat_get_xact_tuples_returned(indexrelid)) FROM pg_index
                 WHERE indrelid IN ('runs'::regclass, 'sessions'::regclass, 'tenants'::regclass))
                ::bigint",
    )
    .fetch_one(conn)
    .await
    .unwrap()
}

/// Executes the statements of `work` and returns the number of rows that they read.
async fn reads(conn: &mut PgConnection, work: impl AsyncFnOnce(&mut PgConnection)) -> i64 {
    conn.execute("BEGIN").await.unwrap();
    let before = rows_read(conn).await;
    work(conn).await;
    let read = rows_read(conn).await - before;
    conn.execute("ROLLBACK").await.unwrap();
    read
}

#[tokio::test]
async fn the_queue_and_its_claims_read_each_live_run_a_few_times() {
    let bed = crowded().await;
    let mut conn = bed.pool.acquire().await.unwrap();
    let read = reads(&mut conn, async |conn| {
        assert_eq!(list(conn).await.unwrap().runs.len(), usize::try_from(RUNS).unwrap());
    })
    .await;
    assert!(read < MOST, "the list of the queue: {read} rows");
    let id: Uuid = sqlx::query_scalar("SELECT id FROM runs WHERE status = 'queued' LIMIT 1")
        .fetch_one(&bed.pool)
        .await
        .unwrap();
    let read = reads(&mut conn, async |conn| {
        assert!(find_position(conn, id.into()).await.unwrap().is_some());
    })
    .await;
    assert!(read < MOST, "the position of a run: {read} rows");
    // The plan of a prepared statement may change after five executions.
    for _ in 0..7 {
        let read = reads(&mut conn, async |conn| {
            let claims = claim_queued(conn, WorkerId::new(), 50).await.unwrap();
            assert_eq!(claims.runs.len(), 50);
        })
        .await;
        assert!(read < MOST, "a claim: {read} rows");
    }
}

#[tokio::test]
async fn claims_of_expired_and_waiting_runs_read_no_other_runs() {
    let bed = crowded().await;
    let mut conn = bed.pool.acquire().await.unwrap();
    for _ in 0..7 {
        let read = reads(&mut conn, async |conn| {
            let worker = WorkerId::new();
            for suspicion in [Suspicion::None, Suspicion::Suspected, Suspicion::Isolated] {
                let claims = claim_expired(conn, worker, suspicion, 10).await.unwrap();
                assert!(claims.runs.is_empty());
            }
            assert!(claim_woken(conn, worker, 10).await.unwrap().runs.is_empty());
            expire(conn, &[worker]).await.unwrap();
        })
        .await;
        // The last one reads the owner of each lease.
        assert!(read < 2 * RUNS, "{read} rows");
    }
}

/// The server compiles a statement if it estimates high costs, which takes longer than the statement.
#[tokio::test]
async fn no_statement_is_compiled_even_if_the_database_asks_for_it() {
    let database = database().await;
    let name: String =
        sqlx::query_scalar("SELECT current_database()").fetch_one(&database.pool(1)).await.unwrap();
    let on = format!("ALTER DATABASE {name} SET jit = on");
    database.pool(1).execute(sqlx::AssertSqlSafe(on)).await.unwrap();
    for role in [
        PoolRole::Login,
        PoolRole::Api,
        PoolRole::Admission,
        PoolRole::Worker,
        PoolRole::Heartbeat,
        PoolRole::Bus,
    ] {
        let pool = pool(&database.options(), role);
        let jit: String = sqlx::query_scalar("SHOW jit").fetch_one(&pool).await.unwrap();
        assert_eq!(jit, "off", "{role:?}");
    }
}
