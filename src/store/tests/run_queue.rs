//! The order of the queue.

use sqlx::postgres::PgConnection;
use uuid::Uuid;

use super::*;
use crate::store::run_queue::{TenantQueue, count_queued, find_position, list};
use crate::store::tenants;

impl Bed {
    async fn conn(&self) -> sqlx::pool::PoolConnection<sqlx::Postgres> {
        self.pool.acquire().await.unwrap()
    }
}

async fn tenant(conn: &mut PgConnection, name: &str) -> TenantId {
    let id = TenantId::new();
    assert!(tenants::insert(conn, id, name).await.unwrap());
    id
}

/// Inserts a session with these runs, the first of which were accepted so many seconds ago. Returns the
/// IDs of the runs.
async fn runs(conn: &mut PgConnection, tenant: TenantId, status: &str, ages: &[f64]) -> Vec<RunId> {
    let session = SessionId::new();
    let template = "INSERT INTO sessions (id, tenant_id, model, settings, metadata)
                    SELECT $1, $2, model, settings, metadata FROM sessions LIMIT 1";
    let query = sqlx::query(template).bind(session.as_uuid()).bind(tenant.as_uuid());
    query.execute(&mut *conn).await.unwrap();
    let mut ids = Vec::new();
    for (seq, age) in (1_i64..).zip(ages) {
        let id = RunId::new();
        let insert =
            "INSERT INTO runs (id, session_id, tenant_id, status, accepted_seq, message_id,
                          input, fingerprint, created_at, lease_until)
                      VALUES ($1, $2, $3, $4, $5, 'm', '[]', '', now() - make_interval(secs => $6),
                              CASE $4 WHEN 'running' THEN now() END)";
        let query = sqlx::query(insert).bind(id.as_uuid()).bind(session.as_uuid());
        let query = query.bind(tenant.as_uuid()).bind(status).bind(seq).bind(age);
        query.execute(&mut *conn).await.unwrap();
        ids.push(id);
    }
    ids
}

/// Inserts a session of a sub-agent of this run, with a queued run that was accepted so many seconds
/// ago. Returns the ID of the run.
async fn sub_agent(conn: &mut PgConnection, tenant: TenantId, parent: RunId, age: f64) -> RunId {
    let ids = runs(conn, tenant, "queued", &[age]).await;
    let link = "UPDATE sessions s SET parent_session_id = parent.session_id,
                       parent_run_id = parent.id, parent_tool_use_id = 'toolu_1'
                FROM runs parent, runs r
                WHERE parent.id = $1 AND r.id = $2 AND s.id = r.session_id";
    let query = sqlx::query(link).bind(parent.as_uuid()).bind(ids[0].as_uuid());
    query.execute(conn).await.unwrap();
    ids[0]
}

/// Claims one run after the other, and returns the order.
async fn claimed_one_by_one(conn: &mut PgConnection, count: usize) -> Vec<RunId> {
    let mut order = Vec::new();
    for _ in 0..count {
        let claims = claim_queued(conn, WorkerId::new(), 1).await.unwrap();
        order.extend(claims.runs.iter().map(|run| run.fence.run_id));
    }
    order
}

#[tokio::test]
async fn tenants_take_turns_and_the_runs_of_a_tenant_keep_their_order() {
    let bed = bed().await;
    let conn = &mut *bed.conn().await;
    let (loud, quiet) = (tenant(conn, "loud").await, tenant(conn, "quiet").await);
    let mut of_loud = Vec::new();
    for age in [100.0, 99.0, 98.0, 97.0, 96.0] {
        of_loud.extend(runs(conn, loud, "queued", &[age]).await);
    }
    let mut of_quiet = Vec::new();
    for age in [2.0, 1.0] {
        of_quiet.extend(runs(conn, quiet, "queued", &[age]).await);
    }
    let expected =
        [of_loud[0], of_quiet[0], of_loud[1], of_quiet[1], of_loud[2], of_loud[3], of_loud[4]];
    let queue = list(conn).await.unwrap();
    let shown: Vec<RunId> = queue.runs.iter().map(|run| run.run_id).collect();
    assert_eq!((shown.as_slice(), queue.length), (expected.as_slice(), 7));
    for (position, run) in (1..).zip(expected) {
        let found = find_position(conn, run).await.unwrap().unwrap();
        assert_eq!((found.position, found.length), (position, 7));
    }
    assert_eq!(claimed_one_by_one(conn, 8).await, expected, "the order that was shown");
}

#[tokio::test]
async fn a_tenant_with_running_runs_waits_for_one_that_has_none() {
    let bed = bed().await;
    let conn = &mut *bed.conn().await;
    let (loud, quiet) = (tenant(conn, "loud").await, tenant(conn, "quiet").await);
    for _ in 0..3 {
        runs(conn, loud, "running", &[500.0]).await;
    }
    let of_loud = runs(conn, loud, "queued", &[400.0]).await;
    let mut of_quiet = Vec::new();
    for age in [3.0, 2.0, 1.0] {
        of_quiet.extend(runs(conn, quiet, "queued", &[age]).await);
    }
    let claims = claim_queued(conn, WorkerId::new(), 3).await.unwrap();
    let mut claimed: Vec<Uuid> = claims.runs.iter().map(|run| run.fence.run_id.as_uuid()).collect();
    claimed.sort_unstable();
    let mut expected: Vec<Uuid> = of_quiet.iter().map(|run| run.as_uuid()).collect();
    expected.sort_unstable();
    assert_eq!(claimed, expected);
    assert_eq!(claimed_one_by_one(conn, 1).await, of_loud);
}

#[tokio::test]
async fn tenants_take_turns_even_if_every_run_ends_before_the_next_one_starts() {
    let bed = bed().await;
    let conn = &mut *bed.conn().await;
    let (loud, quiet) = (tenant(conn, "loud").await, tenant(conn, "quiet").await);
    for tenant in [loud, quiet] {
        for _ in 0..3 {
            runs(conn, tenant, "queued", &[1.0]).await;
        }
    }
    let mut order = Vec::new();
    for _ in 0..6 {
        let shown = list(conn).await.unwrap().runs[0].run_id;
        assert_eq!(claimed_one_by_one(conn, 1).await, [shown]);
        let settle = "UPDATE runs SET status = 'completed', finished_at = now(), lease_until = NULL
                      WHERE status = 'running' RETURNING tenant_id";
        let tenant: Uuid = sqlx::query_scalar(settle).fetch_one(&mut *conn).await.unwrap();
        order.push(TenantId::from(tenant));
    }
    assert_eq!(order, [loud, quiet, loud, quiet, loud, quiet]);
}

#[tokio::test]
async fn the_sub_agents_of_a_tenant_start_first_in_its_own_turns_only() {
    let bed = bed().await;
    let conn = &mut *bed.conn().await;
    let (loud, quiet) = (tenant(conn, "loud").await, tenant(conn, "quiet").await);
    let mut of_loud = Vec::new();
    for age in [50.0, 49.0, 48.0] {
        let parent = runs(conn, loud, "running", &[age]).await[0];
        of_loud.push(sub_agent(conn, loud, parent, age - 10.0).await);
    }
    of_loud.extend(runs(conn, loud, "queued", &[90.0]).await);
    let mut of_quiet = Vec::new();
    for age in [3.0, 2.0] {
        of_quiet.extend(runs(conn, quiet, "queued", &[age]).await);
    }
    // The runs that wait for their sub-agents hold no slot, so they do not delay the tenant's turn.
    let expected = [of_loud[0], of_quiet[0], of_loud[1], of_quiet[1], of_loud[2], of_loud[3]];
    let queue = list(conn).await.unwrap();
    let shown: Vec<RunId> = queue.runs.iter().map(|run| run.run_id).collect();
    assert_eq!(shown, expected);
    assert_eq!(claimed_one_by_one(conn, 7).await, expected, "the order that was shown");
}

#[tokio::test]
async fn a_run_of_a_sub_agent_for_which_no_run_waits_keeps_its_position() {
    let bed = bed().await;
    let conn = &mut *bed.conn().await;
    let ended = runs(conn, TenantId::DEFAULT, "running", &[50.0]).await[0];
    let first = runs(conn, TenantId::DEFAULT, "queued", &[30.0]).await[0];
    let second = sub_agent(conn, TenantId::DEFAULT, ended, 20.0).await;
    let settle = "UPDATE runs SET status = 'completed', finished_at = now(), lease_until = NULL
                  WHERE id = $1";
    sqlx::query(settle).bind(ended.as_uuid()).execute(&mut *conn).await.unwrap();
    assert_eq!(claimed_one_by_one(conn, 2).await, [first, second]);
}

#[tokio::test]
async fn a_run_behind_another_one_of_its_session_has_no_position() {
    let bed = bed().await;
    let conn = &mut *bed.conn().await;
    let ids = runs(conn, TenantId::DEFAULT, "queued", &[3.0, 2.0]).await;
    assert_eq!(find_position(conn, ids[0]).await.unwrap().unwrap().position, 1);
    assert_eq!(find_position(conn, ids[1]).await.unwrap(), None);
    let queue = list(conn).await.unwrap();
    assert_eq!((queue.length, queue.runs.len()), (2, 1), "it counts as queued");
    assert!((2.9..60.0).contains(&queue.oldest_seconds), "{}", queue.oldest_seconds);
}

#[tokio::test]
async fn the_count_says_which_runs_were_queued_before() {
    let bed = bed().await;
    let conn = &mut *bed.conn().await;
    let empty = count_queued(conn, jiff::Timestamp::UNIX_EPOCH).await.unwrap();
    assert_eq!((empty.tenants.len(), empty.is_shared), (0, false));
    runs(conn, TenantId::DEFAULT, "queued", &[30.0, 20.0, -30.0]).await;
    let count = count_queued(conn, empty.at).await.unwrap();
    let expected = TenantQueue { tenant: TenantId::DEFAULT, length: 3, earlier: 2 };
    assert_eq!((count.tenants.as_slice(), count.is_shared), ([expected].as_slice(), false));
    let other = tenant(conn, "other").await;
    assert!(!count_queued(conn, empty.at).await.unwrap().is_shared, "it has no session");
    runs(conn, other, "queued", &[1.0]).await;
    assert!(count_queued(conn, empty.at).await.unwrap().is_shared);
}
