//! Searches, which use indexes that statements under row-level security cannot use.

use serde_json::Value;
use sqlx::{Executor as _, PgConnection};
use uuid::Uuid;

use super::TwoTenants;
use crate::support::{TestApp, replies, says};

/// Creates 3,000 sessions of the tenant `test.tenant`, each with its own title and ticket, all with
/// the same team. Copies the settings of an existing session.
const MANY: &str = "
    INSERT INTO sessions (id, tenant_id, title, metadata, model, settings)
    SELECT gen_random_uuid(), current_setting('test.tenant')::uuid, 'title' || n,
           json_build_object('ticket', n, 'team', 'all'), 'm', known.settings
    FROM generate_series(1, 3000) n, (SELECT settings FROM sessions LIMIT 1) known;
    INSERT INTO events (session_id, seq, tenant_id, event_id, type, body)
    SELECT id, 1, tenant_id, 'e', 'user.message',
           json_build_object('content', json_build_array(json_build_object('text', 'about ' || title)))
    FROM sessions
    WHERE title LIKE 'title%' AND tenant_id = current_setting('test.tenant')::uuid;
    ANALYZE sessions, events;";

#[tokio::test(flavor = "multi_thread")]
async fn searches_without_row_level_security_find_only_sessions_of_the_tenant() {
    let shared = TwoTenants::new().await;
    let own: Vec<Uuid> =
        sqlx::query_scalar("SELECT id FROM sessions WHERE tenant_id = $1 AND title IS NOT NULL")
            .bind(shared.one.as_uuid())
            .fetch_all(&shared.database.pool(1))
            .await
            .unwrap();
    for (case, conn, expected) in [
        ("with a tenant", &mut shared.api_for(shared.one).await, own),
        ("without a tenant", &mut shared.api().await, vec![]),
    ] {
        for select in [
            "SELECT sessions_with_words('common')",
            "SELECT unnest(sessions_with_terms(ARRAY[metadata_term('team', 'x')]))",
        ] {
            let found: Vec<Uuid> = sqlx::query_scalar(select).fetch_all(&mut *conn).await.unwrap();
            assert_eq!(found, expected, "{case}: {select}");
        }
    }
}

/// The numbers of rows of sessions and events that a search reads: by sequential scans, by indexes.
async fn read_by(conn: &mut PgConnection, search: &'static str) -> (i64, i64) {
    conn.execute("BEGIN").await.unwrap();
    let before = read_so_far(conn).await;
    conn.execute(search).await.unwrap();
    let after = read_so_far(conn).await;
    conn.execute("ROLLBACK").await.unwrap();
    (after.0 - before.0, after.1 - before.1)
}

/// The numbers of rows that the current transaction has read.
async fn read_so_far(conn: &mut PgConnection) -> (i64, i64) {
    let counts = "SELECT sum(seq_tup_read)::bigint, sum(idx_tup_fetch)::bigint
                  FROM pg_stat_xact_user_tables WHERE relname IN ('sessions', 'events')";
    sqlx::query_as(counts).fetch_one(conn).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_reads_only_the_rows_it_finds() {
    let shared = TwoTenants::new().await;
    let mut all = shared.database.pool(1).acquire().await.unwrap();
    for tenant in [shared.one, shared.other] {
        let set = "SELECT set_config('test.tenant', $1, false)";
        sqlx::query(set).bind(tenant.as_uuid().to_string()).execute(&mut *all).await.unwrap();
        all.execute(MANY).await.unwrap();
    }
    let mut conn = shared.api_for(shared.one).await;
    // A title and a message of each of the two tenants.
    let by_words = read_by(&mut conn, "SELECT sessions_with_words('title777')").await;
    assert_eq!(by_words, (0, 4));
    let term = "SELECT sessions_with_terms(ARRAY[metadata_term('ticket', '777')])";
    assert_eq!(read_by(&mut conn, term).await, (0, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_whose_metadata_many_others_have_are_found() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    app.session().await;
    let mut conn = app.database.pool(1).acquire().await.unwrap();
    let set = "SET test.tenant = '00000000-0000-7000-8000-000000000001'";
    conn.execute(set).await.unwrap();
    conn.execute(MANY).await.unwrap();
    for (query, expected) in [
        ("metadata[team]=all&limit=100", 100),
        ("metadata[team]=all&metadata[ticket]=7", 1),
        ("metadata[team]=all&q=title7", 1),
        ("metadata[team]=none", 0),
    ] {
        let path = format!("/v1/sessions?{query}");
        let page: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
        assert_eq!(page["data"].as_array().unwrap().len(), expected, "{query}");
    }
    // The inserted events are not valid, so the invariants are not checked.
    app.stop_unchecked().await;
}
