//! The checks of `/readyz` and their results.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};
use sqlx::Executor as _;

use crate::support::{Proxy, Setup, TestApp, database, replies, says};

async fn readiness(app: &TestApp) -> (u16, Value) {
    let response = app.get("/readyz").send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// Repeats the request until it gets this response. The check of the database is cached for 1 s.
async fn becomes(app: &TestApp, expected: &(u16, Value)) {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let found = readiness(app).await;
        if found == *expected {
            return;
        }
        assert!(Instant::now() < deadline, "{found:?} did not become {expected:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn check(status: &str, detail: &str) -> Value {
    json!({ "status": status, "detail": detail })
}

fn ready() -> Value {
    json!({ "is_ready": true, "checks": {
        "accepting": check("ok", "accepting requests"),
        "database": check("ok", "reachable"),
        "schema": check("ok", "matches this version"),
        "worker": check("ok", "leases are renewed"),
        "model": check("ok", "closed"),
    } })
}

fn newest() -> i64 {
    twostep::store::MIGRATIONS.iter().map(|migration| migration.version).max().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ready_process_lists_its_checks() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    assert_eq!(readiness(&app).await, (200, ready()));
    drop(app);
    let setup = Setup { no_worker: true, ..Setup::default() };
    let app = TestApp::start_with(replies(&[says("Hello.")]), setup).await;
    let mut expected = ready();
    let checks = expected["checks"].as_object_mut().unwrap();
    checks.retain(|name, _| !["worker", "model"].contains(&&**name));
    assert_eq!(readiness(&app).await, (200, expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_is_a_warning_and_an_older_one_is_a_failure() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let pool = app.database.pool(1);
    pool.execute(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'of a later version', true, '', 0)",
    )
    .await
    .unwrap();
    let mut newer = ready();
    let detail = format!("at 9999, newer than {} of this version", newest());
    newer["checks"]["schema"] = check("warning", &detail);
    becomes(&app, &(200, newer)).await;
    pool.execute("DELETE FROM _sqlx_migrations WHERE version > 1").await.unwrap();
    let mut older = ready();
    older["is_ready"] = false.into();
    let detail = format!("at 1, this version needs {}: run `twostep migrate`", newest());
    older["checks"]["schema"] = check("failed", &detail);
    becomes(&app, &(503, older)).await;
    // The final check refuses a database of another version.
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_during_an_outage_of_the_database_are_answered_in_time() {
    let database = database().await;
    let proxy = Proxy::before(&database.options()).await;
    let setup = Setup { database: Some(proxy.options(&database.options())), ..Setup::default() };
    let folder = tempfile::TempDir::new().unwrap();
    let app = Box::pin(TestApp::on(replies(&[says("Hello.")]), setup, database, folder)).await;
    assert_eq!(readiness(&app).await, (200, ready()));
    proxy.drop_traffic(true);
    let mut unreachable = ready();
    unreachable["is_ready"] = false.into();
    unreachable["checks"]["database"] = check("failed", "unreachable");
    unreachable["checks"]["schema"] = check("failed", "unknown: the database is unreachable");
    becomes(&app, &(503, unreachable)).await;
    let started = Instant::now();
    let probes = join_all((0..100).map(|_| readiness(&app))).await;
    assert!(probes.iter().all(|(status, _)| *status == 503));
    // One check takes 2 s, and all probes share its result: 100 checks would take 200 s.
    assert!(started.elapsed() < Duration::from_secs(100), "{:?}", started.elapsed());
    proxy.drop_traffic(false);
    becomes(&app, &(200, ready())).await;
    app.stop().await;
}
