//! Statements that read few rows whatever the statistics of the tables say. After a change of the load the
//! statistics are old until the next automatic analysis.

use sqlx::{Executor as _, PgConnection};
use uuid::Uuid;

use super::step_columns::request;
use super::*;
use crate::domain::claim::Fence;
use crate::store::connections::Connections;
use crate::store::leases::expire;
use crate::store::run_queue::{find_position, list};
use crate::store::{PoolRole, pool, requests, tenants, usage};

/// The number of queued runs, and of running ones.
const RUNS: i64 = 300;
/// The number of settled runs.
const SETTLED: i64 = 1_000;
/// The most rows that a statement may read: each live run a few times, and small tables as a whole. It
/// reads 90,000 if it compares each queued run with each other one.
const MOST: i64 = 30 * RUNS;

/// The most rows that a statement on one session may read.
const FEW: i64 = 100;

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

/// The number of rows and index entries that the current transaction has read.
async fn rows_read(conn: &mut PgConnection) -> i64 {
    sqlx::query_scalar(
        "SELECT (SELECT sum(seq_tup_read) FROM pg_stat_xact_user_tables)::bigint
              + (SELECT sum(pg_stat_get_xact_tuples_returned(i.indexrelid))
                 FROM pg_index i JOIN pg_stat_user_tables t ON t.relid = i.indrelid)::bigint",
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

/// Stores a message, an event, a call and a request of each settled run.
async fn fill(bed: &Bed) {
    for insert in [
        "INSERT INTO messages (session_id, seq, tenant_id, run_id, attempt, role, message_id, content)
         SELECT session_id, 1, tenant_id, id, 1, 'user', 'm', '[{}]' FROM runs",
        "INSERT INTO events (session_id, seq, tenant_id, run_id, event_id, type, body)
         SELECT session_id, 1, tenant_id, id, 'e', 't', '{}' FROM runs",
        "INSERT INTO tool_calls (session_id, message_seq, tool_use_id, tenant_id, run_id, position, name)
         SELECT session_id, 1, 'a', tenant_id, id, 0, 'n' FROM runs",
        "INSERT INTO requests (session_id, run_id, n, tenant_id, attempt, model, message_seq, form,
                               body_hash, body_length, duration_ms, input_tokens,
                               cache_creation_input_tokens, cache_read_input_tokens, output_tokens,
                               cache_creation_1h_input_tokens, thinking_tokens, web_search_requests,
                               web_fetch_requests)
         SELECT session_id, id, 1, tenant_id, 1, 'm', 1, '{}', '', 1, 1, 0, 0, 0, 0, 0, 0, 0, 0 FROM runs",
    ] {
        let insert = format!("{insert} WHERE status = 'completed'");
        bed.pool.execute(sqlx::AssertSqlSafe(insert)).await.unwrap();
    }
}

/// The numbers of rows that statements have read.
struct Reads<'c> {
    conn: &'c mut PgConnection,
    before: i64,
    of_statements: Vec<(&'static str, i64)>,
}

impl Reads<'_> {
    async fn count(&mut self, statement: &'static str) {
        let now = rows_read(self.conn).await;
        self.of_statements.push((statement, now - self.before));
        self.before = now;
    }
}

/// Executes most of the statements that a worker executes for a run, and returns the number of rows that
/// each reads.
async fn work(
    conn: &mut PgConnection,
    session: SessionId,
    fence: Fence,
) -> Vec<(&'static str, i64)> {
    conn.execute("BEGIN").await.unwrap();
    let before = rows_read(conn).await;
    let mut reads = Reads { conn, before, of_statements: Vec::new() };
    let worker = WorkerId::new();
    claim_queued(reads.conn, worker, 10).await.unwrap();
    reads.count("claim queued runs").await;
    claim_expired(reads.conn, worker, Suspicion::None, 10).await.unwrap();
    reads.count("claim expired runs").await;
    claim_woken(reads.conn, worker, 10).await.unwrap();
    reads.count("claim woken runs").await;
    renew(reads.conn, fence.worker, &[fence.run_id]).await.unwrap();
    reads.count("renew leases").await;
    tenants::owner(reads.conn, session).await.unwrap();
    reads.count("owner").await;
    messages::list_lines(reads.conn, session, 0).await.unwrap();
    reads.count("messages").await;
    requests::counted(reads.conn, session).await.unwrap();
    reads.count("counted request").await;
    requests::last_answered(reads.conn, session, 0, 10).await.unwrap();
    reads.count("last answered request").await;
    usage::of_run(reads.conn, fence.run_id).await.unwrap();
    reads.count("usage of run").await;
    usage::not_in_messages(reads.conn, session, fence.run_id).await.unwrap();
    reads.count("usage not in messages").await;
    tool_calls::list(reads.conn, session, 1).await.unwrap();
    reads.count("calls").await;
    let asked = request();
    let replies = [message(Role::Assistant, r#"[{"type":"x"}]"#)];
    let events = [NewEvent::new(&EventBody::UserInterrupt {})];
    for (steps, (name, is_budgeted)) in (0..).zip([("plain step", false), ("whole step", true)]) {
        let step = StepCommit {
            messages: &replies,
            planned: &[call("a"), call("b")],
            events: &events,
            usage: Some(asked.usage),
            request: Some(&asked),
            is_budgeted,
            ..StepCommit::default()
        };
        let committed = commit(reads.conn, session, fence, steps, &step).await.unwrap();
        assert!(committed.is_some(), "{name}");
        reads.count(name).await;
    }
    let Reads { conn, of_statements, .. } = reads;
    conn.execute("ROLLBACK").await.unwrap();
    of_statements
}

#[tokio::test]
async fn a_connection_does_not_keep_the_plans_that_it_made_for_small_tables() {
    let bed = bed().await;
    let run = bed.started().await;
    let connections = Connections::from(pool(&bed.database.options(), PoolRole::Worker));
    let work = async || {
        let work = async |conn: &mut PgConnection| Ok(work(conn, bed.session, run.fence).await);
        connections.with::<_, sqlx::Error>(work).await.unwrap()
    };
    bed.pool.execute("ANALYZE").await.unwrap();
    for _ in 0..9 {
        work().await;
    }
    insert(&bed, SETTLED, "completed").await;
    fill(&bed).await;
    let scans = work().await;
    assert!(scans.iter().any(|(_, read)| *read > SETTLED), "the test sees plans for small tables");
    for _ in 10..16 {
        work().await;
    }
    let mut reads = work().await;
    reads.retain(|(_, read)| *read > FEW);
    assert_eq!(reads, []);
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
