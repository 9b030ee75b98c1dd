//! `twostep keys`, as an operator uses it.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::{
    Program, TestDatabase, binary, client_with, data_dir, database, outcome, problem,
};

/// Runs `twostep keys` with these arguments: what it prints, and what it says.
async fn keys(database: &TestDatabase, args: &[&str]) -> (String, String) {
    let (status, stdout, stderr) = run(&["--database-url", &database.url()], args).await;
    assert_eq!(status, Some(0), "{args:?}: {stderr}");
    (stdout, stderr)
}

async fn run(before: &[&str], args: &[&str]) -> (Option<i32>, String, String) {
    outcome(binary(&[&["keys"], before, args].concat())).await
}

async fn refused(database: &TestDatabase, args: &[&str], expected: &str) {
    let (status, stdout, stderr) = run(&["--database-url", &database.url()], args).await;
    assert_eq!((status, &*stdout), (Some(1), ""), "{args:?}: {stderr}");
    assert!(stderr.contains(expected), "{args:?}: {stderr}");
}

fn id_of(key: &str) -> &str {
    key.trim().rsplit_once('_').unwrap().0
}

/// The keys that are listed, without what differs from one time to the next.
async fn listed(database: &TestDatabase, args: &[&str]) -> Vec<Value> {
    let (stdout, _) = keys(database, &[&["list", "--json"], args].concat()).await;
    let keys = stdout.lines().map(|line| {
        let key: Value = serde_json::from_str(line).unwrap();
        json!([key["id"], key["name"], key["tenant"], key["scope"], key["status"]])
    });
    keys.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_printed_once_and_opens_a_service_that_runs_already() {
    let folder = data_dir();
    let name = folder.path().to_str().unwrap();
    let serve =
        ["serve", "--offline", "--bind", "127.0.0.1:0", "--data-dir", name, "--auth", "keys"];
    let program = Program::serve(binary(&serve)).await;
    assert!(program.greeting.contains("twostep keys create NAME"), "{}", program.greeting);
    let sessions = format!("{}/v1/sessions", program.url);
    let client = client_with(None);
    problem(client.post(&sessions).send().await.unwrap(), 401, "unauthenticated").await;

    let (status, stdout, stderr) = run(&["--data-dir", name], &["create", "laptop"]).await;
    assert_eq!((status, stdout.lines().count()), (Some(0), 1), "{stderr}");
    let key = stdout.trim();
    assert!(!stderr.contains(key), "{stderr}");
    let made = client.post(&sessions).bearer_auth(key).send().await.unwrap();
    assert_eq!(made.status(), 201);

    let (status, stdout, _) = run(&["--data-dir", name], &["list"]).await;
    assert_eq!(status, Some(0));
    let (id, secret) = key.rsplit_once('_').unwrap();
    assert!(stdout.starts_with(&format!("{id}  active   write  default  laptop  created ")));
    assert!(!stdout.contains(secret), "{stdout}");
    program.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_made_for_a_tenant_with_a_scope_and_for_a_time() {
    let database = database().await;
    let (first, _) = keys(&database, &["create", "ci", "--scope", "read"]).await;
    let create = ["create", "bot", "--new-tenant", "acme", "--expires-in", "30d", "--json"];
    let (made, _) = keys(&database, &create).await;
    let made: Value = serde_json::from_str(&made).unwrap();
    let second = made["key"].as_str().unwrap();
    assert_eq!(made["id"], id_of(second));
    let life: i64 = sqlx::query_scalar(
        "SELECT extract(epoch FROM expires_at - created_at)::int8 FROM api_keys WHERE name = 'bot'",
    )
    .fetch_one(&database.pool(1))
    .await
    .unwrap();
    assert_eq!(life, 30 * 86_400);

    let ours = json!([id_of(&first), "ci", "default", "read", "active"]);
    let theirs = json!([id_of(second), "bot", "acme", "write", "active"]);
    assert_eq!(listed(&database, &[]).await, [ours, theirs.clone()]);
    assert_eq!(listed(&database, &["--tenant", "acme"]).await, [theirs]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_database_keeps_opens_nothing() {
    let database = database().await;
    let (key, _) = keys(&database, &["create", "laptop"]).await;
    let (id, secret) = key.trim().rsplit_once('_').unwrap();
    let kept: String = sqlx::query_scalar("SELECT to_jsonb(k)::text FROM api_keys k")
        .fetch_one(&database.pool(1))
        .await
        .unwrap();
    let id = id.trim_start_matches("tsk_");
    assert!(kept.replace('-', "").contains(id), "{kept}");
    assert!(!kept.contains(secret), "{kept}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_taken_back_once_and_for_all() {
    let database = database().await;
    let (key, _) = keys(&database, &["create", "laptop"]).await;
    let id = id_of(&key);
    let revoked = json!([id, "laptop", "default", "write", "revoked"]);
    for _ in 0..2 {
        keys(&database, &["revoke", id]).await;
        assert_eq!(listed(&database, &[]).await, std::slice::from_ref(&revoked));
    }
    refused(&database, &["rotate", id], "revoked").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_replaced_once_and_the_one_before_ends_after_its_grace() {
    let database = database().await;
    let create = ["create", "bot", "--new-tenant", "acme", "--scope", "read", "--expires-in", "7d"];
    let (old, _) = keys(&database, &create).await;
    let (new, said) = keys(&database, &["rotate", id_of(&old), "--grace", "0s"]).await;
    assert!(said.contains(id_of(&old)), "{said}");
    assert_ne!(id_of(&old), id_of(&new));
    let line = |key, status| json!([id_of(key), "bot", "acme", "read", status]);
    assert_eq!(listed(&database, &[]).await, [line(&old, "expired"), line(&new, "active")]);
    refused(&database, &["rotate", id_of(&old)], "expired").await;

    let (third, _) = keys(&database, &["rotate", id_of(&new)]).await;
    refused(&database, &["rotate", id_of(&new)], "already been replaced").await;
    let lives: Vec<i64> = sqlx::query_scalar(
        "SELECT extract(epoch FROM expires_at - now())::int8 / 60 FROM api_keys ORDER BY id",
    )
    .fetch_all(&database.pool(1))
    .await
    .unwrap();
    // Minutes; the second one has its hour of grace, the third one the life of the first.
    assert!(lives[0] <= 0 && (50..=60).contains(&lives[1]), "{lives:?}");
    assert!((10_000..=10_080).contains(&lives[2]), "{lives:?}");
    let expected = [line(&old, "expired"), line(&new, "active"), line(&third, "active")];
    assert_eq!(listed(&database, &[]).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_said_and_leaves_nothing() {
    let database = database().await;
    let nobody = "tsk_01a20090ea3376d5bd93702259ddc48b";
    refused(&database, &["create", "bot", "--tenant", "acme"], "tenant \"acme\" does not exist")
        .await;
    refused(&database, &["create", "bot", "--new-tenant", "default"], "already").await;
    refused(&database, &["create", "", "--new-tenant", "acme"], "not a valid name").await;
    refused(&database, &["create", "two\nlines"], "not a valid name").await;
    refused(&database, &["list", "--tenant", "acme"], "tenant \"acme\" does not exist").await;
    refused(&database, &["revoke", nobody], nobody).await;
    refused(&database, &["rotate", nobody], nobody).await;
    assert_eq!(listed(&database, &[]).await, Vec::<Value>::new());
    let tenants: i64 = sqlx::query_scalar("SELECT count(*) FROM tenants")
        .fetch_one(&database.pool(1))
        .await
        .unwrap();
    assert_eq!(tenants, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_is_made_just_now_is_waited_for() {
    let database = database().await;
    let pool = database.pool(1);
    // As it is while a migration is under way.
    let mut migrating = pool.acquire().await.unwrap();
    for statement in [
        "SELECT pg_advisory_lock(7)",
        "CREATE TABLE undone AS SELECT * FROM _sqlx_migrations
         WHERE version = (SELECT max(version) FROM _sqlx_migrations)",
        "DELETE FROM _sqlx_migrations WHERE version IN (SELECT version FROM undone)",
    ] {
        sqlx::query(statement).execute(&mut *migrating).await.unwrap();
    }
    let mut command = binary(&["keys", "--database-url", &database.url(), "list"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut listing = command.spawn().unwrap();
    let mut said = BufReader::new(listing.stderr.take().unwrap()).lines();
    let said = said.next_line().await.unwrap().unwrap();
    assert_eq!(said, "Another process is migrating the schema; waiting for it.");
    for statement in [
        "INSERT INTO _sqlx_migrations SELECT * FROM undone",
        "DROP TABLE undone",
        "SELECT pg_advisory_unlock(7)",
    ] {
        sqlx::query(statement).execute(&mut *migrating).await.unwrap();
    }
    assert!(listing.wait().await.unwrap().success());
}
