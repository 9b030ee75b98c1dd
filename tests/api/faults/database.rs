//! The database becomes unreachable, unresponsive or read-only: no data is lost, and no request
//! waits without a limit.

use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::StatusCode;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::support::machine::HUNG;
use crate::support::{Proxy, Session, Setup, TestApp, calls, database, problem, replies, says};

/// Terminates every connection of the service.
async fn terminate_connections(app: &TestApp) {
    let mut conn = PgConnection::connect_with(&app.database.options()).await.unwrap();
    conn.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name LIKE 'twostep%'",
    )
    .await
    .unwrap();
}

fn long_answer() -> Value {
    let text = "word ".repeat(40);
    let mut last = json!({ "content": [{ "type": "text", "text": text }], "chunk": 5 });
    last["pace_ms"] = 25.into();
    replies(&[calls("write_file", json!({ "path": "a.txt", "content": "1" })), last])
}

async fn attempts(session: &Session<'_>) -> Vec<Value> {
    let events = session.events().await;
    let running = events.iter().filter(|event| event["type"] == "session.status_running");
    running.map(|event| event["attempt"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_continues_when_all_connections_are_terminated() {
    let app = TestApp::start(long_answer()).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Write" })).await;
    session.reached(&run, "agent.tool_result").await;
    for _ in 0..3 {
        terminate_connections(&app).await;
        // Each connection can be found broken once.
        let mut failures = 0;
        while app.get(&session.path("")).send().await.unwrap().status() != StatusCode::OK {
            failures += 1;
            assert!(failures < 10, "requests fail although the database is available");
        }
    }
    assert_eq!(session.settled(&run).await["status"], "completed");
    assert_eq!(attempts(&session).await, [1]);
}

async fn set_read_only(app: &TestApp, is_read_only: bool) {
    let mut conn = PgConnection::connect_with(&app.database.options()).await.unwrap();
    let name = app.database.options();
    let name = name.get_database().unwrap().to_owned();
    conn.execute("SET default_transaction_read_only = false").await.unwrap();
    conn.execute(AssertSqlSafe(format!(
        "ALTER DATABASE {name} SET default_transaction_read_only = {is_read_only}"
    )))
    .await
    .unwrap();
    conn.close().await.unwrap();
    terminate_connections(app).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_to_a_read_only_database_are_replaced() {
    let app = TestApp::start(long_answer()).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Write" })).await;
    session.reached(&run, "agent.tool_result").await;
    set_read_only(&app, true).await;
    let refused = session.message(&json!({ "content": "Now?" })).send().await.unwrap();
    assert_eq!(refused.headers()["retry-after"], "1");
    problem(refused, 503, "database_unavailable").await;
    set_read_only(&app, false).await;
    assert_eq!(session.settled(&run).await["status"], "completed");
    assert_eq!(session.ask("And now?").await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_to_an_unresponsive_database_fail_in_time() {
    let (database, folder) = (database().await, TempDir::new().unwrap());
    let proxy = Proxy::before(&database.options()).await;
    let setup = Setup { database: Some(proxy.options(&database.options())), ..Setup::default() };
    let app = TestApp::on(replies(&[says("Hello.")]), setup, database, folder).await;
    let session = app.session().await;
    assert_eq!(session.ask("Hello").await["status"], "completed");

    proxy.drop_traffic(true);
    let asked = Instant::now();
    let reads = (0..12).map(|_| async {
        problem(app.get(&session.path("")).send().await.unwrap(), 503, "database_unavailable").await
    });
    let post = async {
        let post = session.message(&json!({ "content": "Is it up?" }));
        let post = post.header("idempotency-key", "once").send().await.unwrap();
        problem(post, 503, "database_unavailable").await
    };
    tokio::join!(join_all(reads), post);
    // Each statement fails after 10 s; with a retry of a minute the requests would take longer.
    assert!(asked.elapsed() < Duration::from_secs(45), "{:?}", asked.elapsed());
    let health = app.get("/healthz").send().await.unwrap();
    assert_eq!(health.status(), StatusCode::OK);

    proxy.drop_traffic(false);
    let again = session.message(&json!({ "content": "Is it up?" }));
    let again = again.header("idempotency-key", "once").header("prefer", "wait=30");
    let again: Value = again.send().await.unwrap().json().await.unwrap();
    assert_eq!(again["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_free_connection_is_refused_soon() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session = app.session().await;
    let mut lock = PgConnection::connect_with(&app.database.options()).await.unwrap();
    let mut held = lock.begin().await.unwrap();
    held.execute("LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let posts = (0..20).map(|_| async {
        let post = session.message(&json!({ "content": "Hello" })).send().await.unwrap();
        assert_eq!(post.headers()["retry-after"], "1");
        problem(post, 503, "database_unavailable").await;
    });
    // The lock is held for as long as the requests wait.
    timeout(HUNG, join_all(posts)).await.expect("a request waits for the lock");
    let health = app.get("/healthz").send().await.unwrap();
    assert_eq!(health.status(), StatusCode::OK);
    held.rollback().await.unwrap();
    assert_eq!(session.ask("Hello").await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_continues_when_all_connections_are_lost_silently() {
    let (database, folder) = (database().await, TempDir::new().unwrap());
    let proxy = Proxy::before(&database.options()).await;
    let setup = Setup { database: Some(proxy.options(&database.options())), ..Setup::default() };
    let last = json!({ "content": [{ "type": "text", "text": "word ".repeat(40) }],
                       "chunk": 5, "pace_ms": 400 });
    let app = TestApp::on(replies(&[last]), setup, database, folder).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Write" })).await;
    session.reached(&run, "span.model_request_start").await;
    proxy.drop_open_connections();
    // The first statement that fails closes the other connections too.
    tokio::time::sleep(Duration::from_secs(14)).await;
    assert_eq!(session.settled(&run).await["status"], "completed");
    assert_eq!(attempts(&session).await, [1]);
}

/// Makes every renewal of leases fail, while all other statements work.
const REFUSE_RENEWALS: &str = "
    CREATE FUNCTION refuse_renewal() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF current_setting('application_name') = 'twostep heartbeat' THEN
            RAISE EXCEPTION 'no lease is renewed in this test';
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER refuse_renewal BEFORE UPDATE ON runs
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_renewal();";

/// Waits until the last renewal of leases is too old.
async fn worker_is_late(app: &TestApp) {
    let deadline = Instant::now() + HUNG;
    loop {
        let found: Value = app.get("/readyz").send().await.unwrap().json().await.unwrap();
        if found["checks"]["worker"]["status"] == "failed" {
            return;
        }
        assert!(Instant::now() < deadline, "leases are renewed: {found}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_claimed_while_no_lease_can_be_renewed_writes_its_files() {
    let written = json!({ "path": "a.txt", "content": "new" });
    let script = json!({ "conversations": [
        { "replies": [calls("write_file", written), says("{{result.0}}")] },
    ]});
    let setup = Setup { own_folders: true, ..Setup::default() };
    let app = TestApp::start_with(script, setup).await;
    let mut owner = PgConnection::connect_with(&app.database.options()).await.unwrap();
    owner.execute(REFUSE_RENEWALS).await.unwrap();
    worker_is_late(&app).await;
    let mut answers = Vec::new();
    for batch in 0..8 {
        // Few at a time: each run has less time than a lease lasts.
        let runs = (0..5).map(|number| {
            let app = &app;
            async move {
                let session = app.session().await;
                let run = session.ask(&format!("Write {batch} {number}")).await;
                let folder = app.folder.path().join("workspaces").join(&session.id);
                (run["output_text"].clone(), std::fs::read_to_string(folder.join("a.txt")).ok())
            }
        });
        answers.extend(join_all(runs).await);
    }
    owner
        .execute("DROP TRIGGER refuse_renewal ON runs; DROP FUNCTION refuse_renewal")
        .await
        .unwrap();
    let expected = (json!("Written successfully."), Some("new".to_owned()));
    assert_eq!(answers, vec![expected; 40]);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_after_a_restart_of_the_database_do_not_fail() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session = app.session().await;
    assert_eq!(session.ask("Hello").await["status"], "completed");
    terminate_connections(&app).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let post = session.message(&json!({ "content": "Hello" })).send().await.unwrap();
    assert_eq!(post.status(), StatusCode::ACCEPTED);
    session.settled(&post.json().await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_the_database_interrupts_is_answered_with_accepted() {
    let (database, folder) = (database().await, TempDir::new().unwrap());
    let proxy = Proxy::before(&database.options()).await;
    let setup = Setup { database: Some(proxy.options(&database.options())), ..Setup::default() };
    let last = json!({ "content": [{ "type": "text", "text": "word ".repeat(40) }],
                       "chunk": 5, "pace_ms": 200 });
    let app = TestApp::on(replies(&[last]), setup, database, folder).await;
    let session = app.session().await;
    let waits = async {
        let post = session.message(&json!({ "content": "Write" })).header("prefer", "wait=3");
        let asked = Instant::now();
        let response = timeout(Duration::from_secs(20), post.send()).await;
        (response.map(|response| response.unwrap().status()), asked.elapsed())
    };
    let silence = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        proxy.drop_traffic(true);
    };
    let ((status, took), ()) = tokio::join!(waits, silence);
    proxy.drop_traffic(false);
    assert_eq!(status, Ok(StatusCode::ACCEPTED), "after {took:?}");
    app.has_settled("completed", 1).await;
}
