//! Keys while the database is unavailable or slow.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use sqlx::{Connection as _, Executor as _, PgConnection};
use tempfile::TempDir;
use twostep::domain::api_key::{ApiKey, Scope};
use twostep::domain::ids::TenantId;

use super::start;
use crate::support::{Proxy, Setup, TestApp, database, keys_needed, problem};

/// The time for which the lookup of a key is cached.
const CACHE_TIME: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_accepted_for_a_short_time_without_the_database() {
    let (database, folder) = (database().await, TempDir::new().unwrap());
    let proxy = Proxy::before(&database.options()).await;
    let options = proxy.options(&database.options());
    let setup = Setup { database: Some(options), ..keys_needed() };
    let app = TestApp::on(json!({}), setup, database, folder).await;
    let key = app.database.key(TenantId::DEFAULT, Scope::Read).await.reveal();
    let wrong = format!("{}_{}", key.rsplit_once('_').unwrap().0, "0".repeat(64));
    let get = |key: &str| app.get_as(Some(key), "/v1/tools").send();
    let asked = Instant::now();
    assert_eq!(get(&key).await.unwrap().status(), 200);

    proxy.drop_traffic(true);
    let statuses = [get(&key).await.unwrap().status(), get(&wrong).await.unwrap().status()];
    assert!(statuses == [200, 401] || asked.elapsed() > CACHE_TIME, "{statuses:?}");
    let deadline = Instant::now() + Duration::from_mins(1);
    let unavailable = loop {
        let answer = get(&key).await.unwrap();
        if answer.status() != 200 {
            break answer;
        }
        assert!(Instant::now() < deadline, "the key is still accepted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    problem(unavailable, 503, "database_unavailable").await;
    let unknown = ApiKey::generate().unwrap().reveal();
    problem(get(&unknown).await.unwrap(), 503, "database_unavailable").await;

    proxy.drop_traffic(false);
    assert_eq!(get(&key).await.unwrap().status(), 200);
    assert_eq!(get(&unknown).await.unwrap().status(), 401);
}

/// Statements that wait for a lock.
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
    AND wait_event_type = 'Lock' AND query LIKE '%api_keys%'";

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_wrong_keys_uses_few_connections_and_does_not_block_other_requests() {
    let app = start().await;
    let session = app.session().await;
    let pool = app.database.pool(1);
    // Only the flood may wait for the lock.
    app.database.all_uses_noted().await;
    let mut lock = PgConnection::connect_with(&app.database.options()).await.unwrap();
    let mut held = lock.begin().await.unwrap();
    held.execute("LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let flood = join_all((0..100).map(|_| async {
        let key = ApiKey::generate().unwrap().reveal();
        app.get_as(Some(&key), "/v1/sessions").send().await.unwrap().status().as_u16()
    }));
    let checks = async {
        let deadline = Instant::now() + Duration::from_mins(1);
        let waiting =
            async || sqlx::query_scalar::<_, i64>(WAITING).fetch_one(&pool).await.unwrap();
        while waiting().await < 2 {
            assert!(Instant::now() < deadline, "no key is looked up");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The pool has connections left for others.
        assert_eq!(app.get("/readyz").send().await.unwrap().status(), 200);
        assert_eq!(waiting().await, 2);
        held.rollback().await.unwrap();
        assert_eq!(app.get(&session.path("")).send().await.unwrap().status(), 200);
    };
    let (statuses, ()) = tokio::join!(flood, checks);
    assert_eq!(statuses, [401; 100]);
}
