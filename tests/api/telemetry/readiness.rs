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
        "workspaces": check("ok", "writable"),
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
    checks.retain(|name, _| !["worker", "workspaces", "model"].contains(&&**name));
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

/// The readiness of a process with this check of the database.
fn with_database(detail: &str) -> (u16, Value) {
    let mut expected = ready();
    expected["is_ready"] = false.into();
    expected["checks"]["database"] = check("failed", detail);
    (503, expected)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_whose_disk_is_full_is_not_ready_although_it_can_be_read() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let pool = app.database.pool(1);
    // The error that the server reports when it cannot extend a file.
    pool.execute(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
             $$BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END$$;
         CREATE TRIGGER full_disk BEFORE INSERT ON write_probe EXECUTE FUNCTION fail()",
    )
    .await
    .unwrap();
    becomes(&app, &with_database("cannot be written: the disk is full or fails")).await;
    let session = app.session().await;
    assert_eq!(session.ask("Hello").await["status"], "completed");
    pool.execute("DROP TRIGGER full_disk ON write_probe").await.unwrap();
    becomes(&app, &(200, ready())).await;
    // A backup reads the table, and is no reason not to serve.
    let mut backup = pool.begin().await.unwrap();
    backup.execute("SELECT FROM write_probe").await.unwrap();
    let later = Instant::now() + Duration::from_secs(12);
    while Instant::now() < later {
        assert_eq!(readiness(&app).await, (200, ready()));
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    backup.rollback().await.unwrap();
    let size = "SELECT pg_relation_size('write_probe')";
    assert_eq!(sqlx::query_scalar::<_, i64>(size).fetch_one(&pool).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_database_is_not_ready() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let options = app.database.options();
    let name = options.get_database().unwrap();
    let set = |is_read_only: bool| {
        sqlx::AssertSqlSafe(format!(
            "SET default_transaction_read_only = false;
             ALTER DATABASE {name} SET default_transaction_read_only = {is_read_only};
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name LIKE 'twostep%'"
        ))
    };
    let pool = app.database.pool(1);
    pool.execute(set(true)).await.unwrap();
    let deadline = Instant::now() + Duration::from_mins(1);
    let expected = with_database("cannot be written: the database is read-only").1;
    // The leases cannot be renewed either.
    while readiness(&app).await.1["checks"]["database"] != expected["checks"]["database"] {
        assert!(Instant::now() < deadline, "the process is ready");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    pool.execute(set(false)).await.unwrap();
    becomes(&app, &(200, ready())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_cannot_write_workspaces_is_not_ready() {
    let setup = Setup { own_folders: true, ..Setup::default() };
    let app = TestApp::start_with(replies(&[says("Hello.")]), setup).await;
    // No user, not even root, can create a file there.
    let folder = app.folder.path().join("workspaces");
    std::os::unix::fs::symlink("/proc/self/fdinfo", &folder).unwrap();
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let (status, body) = readiness(&app).await;
        let check = &body["checks"]["workspaces"];
        if check["status"] == "failed" {
            assert!(check["detail"].as_str().unwrap().starts_with("cannot be written: "), "{body}");
            assert_eq!(status, 503);
            break;
        }
        assert!(Instant::now() < deadline, "{body}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    std::fs::remove_file(folder).unwrap();
    becomes(&app, &(200, ready())).await;
}
