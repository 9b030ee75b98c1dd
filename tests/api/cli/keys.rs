//! `twostep keys`.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::{
    Program, TestDatabase, binary, client_with, data_dir, database, outcome, problem,
};

/// Runs `twostep keys` with these arguments, asserts success, and returns stdout and stderr.
async fn keys(database: &TestDatabase, args: &[&str]) -> (String, String) {
    let (status, stdout, stderr) = run(&["--database-url", &database.url()], args).await;
    assert_eq!(status, Some(0), "{args:?}: {stderr}");
    (stdout, stderr)
}

async fn run(before: &[&str], args: &[&str]) -> (Option<i32>, String, String) {
    outcome(binary(&[&["keys"], before, args].concat())).await
}

/// Asserts that `twostep keys` fails with this text on stderr.
async fn assert_fails(database: &TestDatabase, args: &[&str], expected: &str) {
    let (status, stdout, stderr) = run(&["--database-url", &database.url()], args).await;
    assert_eq!((status, &*stdout), (Some(1), ""), "{args:?}: {stderr}");
    assert!(stderr.contains(expected), "{args:?}: {stderr}");
}

fn id_of(key: &str) -> &str {
    key.trim().rsplit_once('_').unwrap().0
}

/// The listed keys, without the members that differ between runs of the test.
async fn listed(database: &TestDatabase, args: &[&str]) -> Vec<Value> {
    let (stdout, _) = keys(database, &[&["list", "--json"], args].concat()).await;
    let keys = stdout.lines().map(|line| {
        let key: Value = serde_json::from_str(line).unwrap();
        json!([key["id"], key["name"], key["tenant"], key["scope"], key["status"]])
    });
    keys.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_printed_once_and_is_valid_for_a_running_service() {
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
    let created = client.post(&sessions).bearer_auth(key).send().await.unwrap();
    assert_eq!(created.status(), 201);

    let (status, stdout, _) = run(&["--data-dir", name], &["list"]).await;
    assert_eq!(status, Some(0));
    let (id, secret) = key.rsplit_once('_').unwrap();
    assert!(stdout.starts_with(&format!("{id}  active   write  default  laptop  created ")));
    assert!(!stdout.contains(secret), "{stdout}");
    program.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_created_with_a_tenant_a_scope_and_an_expiry() {
    let database = database().await;
    let (first, _) = keys(&database, &["create", "ci", "--scope", "read"]).await;
    let create = ["create", "bot", "--new-tenant", "acme", "--expires-in", "30d", "--json"];
    let (created, _) = keys(&database, &create).await;
    let created: Value = serde_json::from_str(&created).unwrap();
    let second = created["key"].as_str().unwrap();
    assert_eq!(created["id"], id_of(second));
    let lifetime: i64 = sqlx::query_scalar(
        "SELECT extract(epoch FROM expires_at - created_at)::int8 FROM api_keys WHERE name = 'bot'",
    )
    .fetch_one(&database.pool(1))
    .await
    .unwrap();
    assert_eq!(lifetime, 30 * 86_400);

    let first = json!([id_of(&first), "ci", "default", "read", "active"]);
    let second = json!([id_of(second), "bot", "acme", "write", "active"]);
    assert_eq!(listed(&database, &[]).await, [first, second.clone()]);
    assert_eq!(listed(&database, &["--tenant", "acme"]).await, [second]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_does_not_contain_the_secret_of_a_key() {
    let database = database().await;
    let (key, _) = keys(&database, &["create", "laptop"]).await;
    let (id, secret) = key.trim().rsplit_once('_').unwrap();
    let stored: String = sqlx::query_scalar("SELECT to_jsonb(k)::text FROM api_keys k")
        .fetch_one(&database.pool(1))
        .await
        .unwrap();
    let id = id.trim_start_matches("tsk_");
    assert!(stored.replace('-', "").contains(id), "{stored}");
    assert!(!stored.contains(secret), "{stored}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_stays_revoked() {
    let database = database().await;
    let (key, _) = keys(&database, &["create", "laptop"]).await;
    let id = id_of(&key);
    let revoked = json!([id, "laptop", "default", "write", "revoked"]);
    for _ in 0..2 {
        keys(&database, &["revoke", id]).await;
        assert_eq!(listed(&database, &[]).await, std::slice::from_ref(&revoked));
    }
    assert_fails(&database, &["rotate", id], "revoked").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_rotated_once_and_the_old_key_expires_after_its_grace_period() {
    let database = database().await;
    let create = ["create", "bot", "--new-tenant", "acme", "--scope", "read", "--expires-in", "7d"];
    let (old, _) = keys(&database, &create).await;
    let (new, stderr) = keys(&database, &["rotate", id_of(&old), "--grace", "0s"]).await;
    assert!(stderr.contains(id_of(&old)), "{stderr}");
    assert_ne!(id_of(&old), id_of(&new));
    let line = |key, status| json!([id_of(key), "bot", "acme", "read", status]);
    assert_eq!(listed(&database, &[]).await, [line(&old, "expired"), line(&new, "active")]);
    assert_fails(&database, &["rotate", id_of(&old)], "expired").await;

    let (third, _) = keys(&database, &["rotate", id_of(&new)]).await;
    assert_fails(&database, &["rotate", id_of(&new)], "already been replaced").await;
    let minutes: Vec<i64> = sqlx::query_scalar(
        "SELECT extract(epoch FROM expires_at - now())::int8 / 60 FROM api_keys ORDER BY id",
    )
    .fetch_all(&database.pool(1))
    .await
    .unwrap();
    // The second key has a grace period of one hour, the third key the lifetime of the first.
    assert!(minutes[0] <= 0 && (50..=60).contains(&minutes[1]), "{minutes:?}");
    assert!((10_000..=10_080).contains(&minutes[2]), "{minutes:?}");
    let expected = [line(&old, "expired"), line(&new, "active"), line(&third, "active")];
    assert_eq!(listed(&database, &[]).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_command_states_the_cause_and_stores_nothing() {
    let database = database().await;
    let unknown = "tsk_01a20090ea3376d5bd93702259ddc48b";
    assert_fails(
        &database,
        &["create", "bot", "--tenant", "acme"],
        "tenant \"acme\" does not exist",
    )
    .await;
    assert_fails(&database, &["create", "bot", "--new-tenant", "default"], "already").await;
    assert_fails(&database, &["create", "", "--new-tenant", "acme"], "not a valid name").await;
    assert_fails(&database, &["create", "two\nlines"], "not a valid name").await;
    assert_fails(&database, &["list", "--tenant", "acme"], "tenant \"acme\" does not exist").await;
    assert_fails(&database, &["revoke", unknown], unknown).await;
    assert_fails(&database, &["rotate", unknown], unknown).await;
    assert_eq!(listed(&database, &[]).await, Vec::<Value>::new());
    let tenants: i64 = sqlx::query_scalar("SELECT count(*) FROM tenants")
        .fetch_one(&database.pool(1))
        .await
        .unwrap();
    assert_eq!(tenants, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_waits_for_a_migration_in_progress() {
    let database = database().await;
    let pool = database.pool(1);
    // The state of a database during a migration: the lock is held, and a version is missing.
    let mut migrating = pool.acquire().await.unwrap();
    for statement in [
        "SELECT pg_advisory_lock(7)",
        "CREATE TABLE missing_version AS SELECT * FROM _sqlx_migrations
         WHERE version = (SELECT max(version) FROM _sqlx_migrations)",
        "DELETE FROM _sqlx_migrations WHERE version IN (SELECT version FROM missing_version)",
    ] {
        sqlx::query(statement).execute(&mut *migrating).await.unwrap();
    }
    let mut command = binary(&["keys", "--database-url", &database.url(), "list"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut listing = command.spawn().unwrap();
    let mut stderr = BufReader::new(listing.stderr.take().unwrap()).lines();
    let line = stderr.next_line().await.unwrap().unwrap();
    assert_eq!(line, "Another process is migrating the schema; waiting for it.");
    for statement in [
        "INSERT INTO _sqlx_migrations SELECT * FROM missing_version",
        "DROP TABLE missing_version",
        "SELECT pg_advisory_unlock(7)",
    ] {
        sqlx::query(statement).execute(&mut *migrating).await.unwrap();
    }
    assert!(listing.wait().await.unwrap().success());
}
