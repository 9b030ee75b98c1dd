//! A schema that a later version has migrated: this version works with it until a migration says that
//! it cannot.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Executor as _, PgPool};
use tokio::time::sleep;

use super::newest;
use crate::support::machine::HUNG;
use crate::support::{Program, TestApp, binary, data_dir, outcome, replies, says};

/// The statements of a migration of a later version that this version can work with.
const EXPANSION: [&str; 7] = [
    "ALTER TABLE sessions ADD COLUMN later text NOT NULL DEFAULT 'later'",
    "ALTER TABLE runs ADD COLUMN later text",
    "ALTER TABLE events ADD COLUMN later integer",
    "ALTER TABLE messages ADD COLUMN later integer",
    "CREATE TABLE later (session_id uuid REFERENCES sessions (id) ON DELETE CASCADE, tenant_id uuid)",
    "SELECT keep_tenants_apart('later')",
    "INSERT INTO _sqlx_migrations SELECT 9999, 'later', now(), true, '', 0",
];

/// Each statement commits alone: one transaction would lock table after table, and can deadlock with a
/// query of the running service. `migrate` repeats such a transaction, this does not.
async fn expand_schema(pool: &PgPool) {
    for statement in EXPANSION {
        pool.execute(statement).await.unwrap();
    }
}

async fn readiness(url: &str, client: &reqwest::Client) -> (u16, Value) {
    let response = client.get(format!("{url}/readyz")).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// Waits until the check of the schema has this result, and returns whether the process is ready.
async fn schema_becomes(url: &str, client: &reqwest::Client, expected: &Value) -> bool {
    let deadline = Instant::now() + HUNG;
    loop {
        let (status, body) = readiness(url, client).await;
        if body["checks"]["schema"] == *expected {
            return status == 200;
        }
        assert!(Instant::now() < deadline, "{body}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Posts a message to a new session of the service, and returns the answer.
async fn ask(url: &str, client: &reqwest::Client) -> Value {
    let session = client.post(format!("{url}/v1/sessions")).send().await.unwrap();
    let session: Value = session.json().await.unwrap();
    let id = session["id"].as_str().unwrap();
    let post = client.post(format!("{url}/v1/sessions/{id}/messages"));
    let post = post.json(&json!({ "content": "Hello" })).header("prefer", "wait=30");
    let run: Value = post.send().await.unwrap().json().await.unwrap();
    run["status"].clone()
}

async fn command(args: &[&str], url: &str) -> (Option<i32>, String, String) {
    let mut command = binary(args);
    command.env("DATABASE_URL", url);
    outcome(command).await
}

async fn require(pool: &PgPool, program: i64) {
    let update = format!("UPDATE schema_compatibility SET oldest_program = {program}");
    pool.execute(AssertSqlSafe(update)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_and_a_new_process_serve_next_to_a_newer_schema_that_requires_no_newer_program() {
    let app = TestApp::start(replies(&[says("Hello."), says("Again.")])).await;
    let (pool, url) = (app.database.pool(1), app.database.url());
    let session = app.session().await;
    assert_eq!(session.ask("Hello").await["status"], "completed");
    expand_schema(&pool).await;

    let (folder, client) = (data_dir(), app.client.clone());
    let name = folder.path().to_str().unwrap();
    let mut serve = binary(&["serve", "--offline", "--bind", "127.0.0.1:0", "--data-dir", name]);
    serve.env("DATABASE_URL", &url);
    let program = Program::serve(serve).await;
    assert_eq!(session.ask("Hello again").await["status"], "completed");
    assert_eq!(ask(&program.url, &client).await, "completed");
    let detail = format!("at 9999, newer than {} of this version", newest());
    let warning = json!({ "status": "warning", "detail": detail });
    for url in [&app.url(""), &program.url] {
        assert!(schema_becomes(url, &client, &warning).await, "{url} is not ready");
    }
    let migrated = command(&["migrate"], &url).await;
    let sentence = format!(
        "the schema is at version 9999, newer than {} of this program and compatible with it\n",
        newest()
    );
    assert_eq!((migrated.0, &*migrated.1), (Some(0), &*sentence), "{}", migrated.2);
    for args in [&["keys", "list"][..], &["verify"]] {
        let (status, _, errors) = command(args, &url).await;
        assert_eq!(status, Some(0), "{args:?}: {errors}");
    }
    assert_eq!(program.terminate().await.0.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_and_readiness_refuse_a_schema_that_requires_a_newer_program() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let (pool, url) = (app.database.pool(1), app.database.url());
    expand_schema(&pool).await;
    require(&pool, 9000).await;
    let known = newest();
    let detail = format!(
        "at 9999, requires a program that knows migration 9000, this version knows {known}: start the \
         version that migrated it"
    );
    let failed = json!({ "status": "failed", "detail": detail });
    assert!(!schema_becomes(&app.url(""), &app.client, &failed).await, "the process is ready");

    let folder = data_dir();
    let name = folder.path().to_str().unwrap();
    let sentence = format!(
        "the database schema has version 9999 and requires a program that knows migration 9000, this \
         program knows migrations up to {known}; start the program version that migrated it, or \
         restore a backup from before the migration\n"
    );
    for args in [
        &["serve", "--offline", "--bind", "127.0.0.1:0", "--data-dir", name][..],
        &["worker", "--offline", "--data-dir", name],
        &["migrate"],
        &["keys", "list"],
        &["verify"],
    ] {
        let (status, _, errors) = command(args, &url).await;
        assert_ne!(status, Some(0), "{args:?}");
        assert!(errors.ends_with(&format!("twostep: {sentence}")), "{args:?}: {errors}");
    }
    // The final check refuses the schema too.
    app.stop_unchecked().await;
}
