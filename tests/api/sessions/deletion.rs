//! Deleting a session: everything except its usage is deleted, and waiting clients are notified.

use std::time::Duration;

use futures::future::join_all;
use reqwest::Response;
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::time::{Instant, sleep};
use twostep::domain::budget::Budget;
use twostep::domain::ids::TenantId;
use twostep::store::budgets::{Period, list, set};

use crate::support::{
    Session, Setup, TestApp, asks, calls, hangs_first, problem, replies, says, tables_with,
};

async fn delete(session: &Session<'_>) -> Response {
    let url = session.app.url(&session.path(""));
    session.app.client.delete(url).send().await.unwrap()
}

async fn delete_successfully(session: &Session<'_>) {
    let response = delete(session).await;
    assert_eq!(response.status(), 204);
    assert_eq!(response.text().await.unwrap(), "");
}

/// The ids of a session and of its runs.
async fn ids(pool: &PgPool, session: &Session<'_>) -> Vec<uuid::Uuid> {
    sqlx::query_scalar("SELECT id FROM runs WHERE session_id = $1 UNION SELECT $1")
        .bind(session.uuid())
        .fetch_all(pool)
        .await
        .unwrap()
}

async fn get(app: &TestApp, path: &str) -> Value {
    app.get(path).send().await.unwrap().json().await.unwrap()
}

/// Starts a service whose sessions write a file in a folder of their own.
async fn start_with_own_folders() -> TestApp {
    let write = calls("Write", json!({ "file_path": "a/b.txt", "content": "mine" }));
    let setup = Setup { own_folders: true, ..Setup::default() };
    TestApp::start_with(replies(&[write, says("Written.")]), setup).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_removes_all_rows_and_files_of_a_session() {
    let app = start_with_own_folders().await;
    let pool = app.database.pool(1);
    let budget = Budget { tokens: Some(1_000_000), cost: None };
    set(&mut pool.acquire().await.unwrap(), TenantId::DEFAULT, Period::Total, budget)
        .await
        .unwrap();
    let new = json!({ "tools": ["Write"] });
    let (deleted, kept) = (app.session_with(new.clone()).await, app.session_with(new).await);
    kept.ask("Write it.").await;
    deleted.ask("Write it, too.").await;
    let deleted_ids = ids(&pool, &deleted).await;
    let all = [
        "events",
        "messages",
        "requests",
        "reservations",
        "runs",
        "seen_files",
        "sessions",
        "tool_calls",
    ];
    assert_eq!(tables_with(&pool, &deleted_ids).await, all);
    let kept_before = (kept.history().await, kept.events().await);
    let spent: i64 = sqlx::query_scalar(
        "SELECT (SELECT tokens FROM budgets) + (SELECT sum(tokens) FROM reservations)::bigint",
    )
    .fetch_one(&pool)
    .await
    .unwrap();

    delete_successfully(&deleted).await;
    let budgets = list(&mut pool.acquire().await.unwrap(), TenantId::DEFAULT).await.unwrap();
    assert_eq!(budgets.into_iter().map(|budget| budget.tokens).collect::<Vec<_>>(), [spent]);
    assert_eq!(tables_with(&pool, &deleted_ids).await, Vec::<String>::new());
    let folder = |session: &Session<'_>| app.folder.path().join("workspaces").join(&session.id);
    assert!(!folder(&deleted).exists());
    for path in ["", "/messages", "/events", "/runs", "/events/stream", "/usage", "/verify"] {
        let response = app.get(&deleted.path(path)).send().await.unwrap();
        problem(response, 404, "session_not_found").await;
    }
    let refused = deleted.message(&json!({ "content": "Hello" })).send().await.unwrap();
    problem(refused, 404, "session_not_found").await;
    problem(delete(&deleted).await, 404, "session_not_found").await;

    assert_eq!((kept.history().await, kept.events().await), kept_before);
    assert!(folder(&kept).join("a/b.txt").exists());
    kept.ask("And again?").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_workspace_is_not_deleted() {
    let write = calls("write_file", json!({ "path": "kept.txt", "content": "theirs" }));
    let app = TestApp::start(replies(&[write, says("Written.")])).await;
    let session = app.session().await;
    session.ask("Write it.").await;
    delete_successfully(&session).await;
    assert_eq!(std::fs::read_to_string(app.folder.path().join("kept.txt")).unwrap(), "theirs");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_usage_of_deleted_sessions_still_counts() {
    let app = start_with_own_folders().await;
    let new = json!({ "tools": ["Write"] });
    let sessions = [app.session_with(new.clone()).await, app.session_with(new.clone()).await];
    let kept = app.session_with(new).await;
    for session in sessions.iter().chain([&kept]) {
        session.ask("Write it.").await;
    }
    let pool = app.database.pool(1);
    sqlx::query("UPDATE requests SET created_at = '2026-03-01 23:59:59Z' WHERE n = 1")
        .execute(&pool)
        .await
        .unwrap();
    sqlx::query("UPDATE requests SET created_at = '2026-03-02 00:00:00Z', cost = 5 WHERE n = 2")
        .execute(&pool)
        .await
        .unwrap();
    let days = "/v1/usage?from=2026-03-01&to=2026-03-02";
    let by = ["day", "model"].map(|by| format!("{days}&group_by={by}"));
    // The quotas show what is stored now.
    let usage = async |path: &String| {
        let mut usage = get(&app, path).await;
        usage.as_object_mut().unwrap().remove("quotas");
        usage
    };
    let before = join_all(by.iter().map(usage)).await;
    for session in &sessions {
        delete_successfully(session).await;
        assert_eq!(join_all(by.iter().map(usage)).await, before);
    }
    let groups = get(&app, &format!("{days}&group_by=session")).await;
    assert_eq!(groups["total"], before[0]["total"]);
    let requests =
        |index: usize| (&groups["data"][index]["key"], &groups["data"][index]["requests"]);
    assert_eq!(requests(0), (&json!(kept.id), &json!(2)));
    assert_eq!(requests(1), (&json!("deleted"), &json!(4)));
    assert_eq!(groups["data"][1]["cost"], 10);
    let first = get(&app, &format!("{days}&group_by=session&limit=1&after={}", kept.id)).await;
    assert_eq!(first["data"], json!([groups["data"][1]]));
    let rest = get(&app, &format!("{days}&group_by=session&after=deleted")).await;
    assert_eq!(rest["data"], json!([]));

    // A budget that is set after the deletion includes the usage of the deleted sessions.
    let mut conn = pool.acquire().await.unwrap();
    let budget = Budget { tokens: Some(1_000_000), cost: Some(1_000_000) };
    set(&mut conn, TenantId::DEFAULT, Period::Total, budget).await.unwrap();
    let budget = list(&mut conn, TenantId::DEFAULT).await.unwrap().remove(0);
    let usage = &before[0]["total"]["usage"];
    let kinds =
        ["input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    let tokens: i64 = kinds.iter().map(|kind| usage[kind].as_i64().unwrap_or(0)).sum();
    assert_eq!((budget.tokens, budget.cost), (tokens, 15));
    // The test has changed the costs of requests, which no longer add up.
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_cancels_runs_and_readers_get_a_last_event() {
    let app = TestApp::start(hangs_first()).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "hang" })).await;
    session.reached(&run, "span.model_request_start").await;
    let queued = session.post(json!({ "content": "Next." })).await;
    let session_stream = session.open(&session.path("/events/stream"), None).await;
    let run_stream = session.open(&session.run_stream(&queued), None).await;
    delete_successfully(&session).await;
    // Both runs have settled; a worker that does not settle its run in time is fenced instead.
    app.has_settled("cancelled", 2).await;

    let events = session_stream.rest().await;
    let last = events.last().unwrap();
    let expected = json!({ "type": "session.deleted", "session_id": session.id });
    assert_eq!((last.id, &last.data), (None, &expected));
    let idle_events = events.iter().filter(|event| event.name == "session.status_idle").count();
    assert!(idle_events <= 2, "{events:?}");
    let last = run_stream.rest().await.pop().unwrap().name;
    assert!(["session.status_idle", "session.deleted"].contains(&last.as_str()), "{last}");
    assert_eq!(tables_with(&app.database.pool(1), &[session.uuid()]).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_can_be_deleted_while_its_run_waits_for_approval() {
    let app = TestApp::start_with(
        replies(&[calls("write_file", json!({ "path": "a", "content": "b" })), says("Done.")]),
        asks(),
    )
    .await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Write it." })).await;
    session.reached(&run, "session.status_idle").await;
    delete_successfully(&session).await;
    assert!(!app.folder.path().join("a").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_waits_for_a_run_of_a_deleted_session_gets_a_404() {
    let app = start_without_worker().await;
    let session = app.session().await;
    let message =
        session.message(&json!({ "content": "Hello" })).header("prefer", "wait=60").send();
    let deletion = async {
        let deadline = Instant::now() + Duration::from_mins(1);
        while session.events().await.is_empty() {
            assert!(Instant::now() < deadline, "the message was not accepted");
            sleep(Duration::from_millis(10)).await;
        }
        delete_successfully(&session).await;
    };
    let started = Instant::now();
    let (response, ()) = tokio::join!(message, deletion);
    problem(response.unwrap(), 404, "session_not_found").await;
    // The request would wait for a minute.
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

/// Starts a service that executes no runs.
async fn start_without_worker() -> TestApp {
    TestApp::start_with(replies(&[]), Setup { no_worker: true, ..Setup::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_a_run_of_a_dead_worker_can_be_deleted() {
    let app = start_without_worker().await;
    let session = app.session().await;
    session.post(json!({ "content": "Hello" })).await;
    let pool = app.database.pool(1);
    sqlx::query(
        "WITH run AS (UPDATE runs SET status = 'running', attempt = 1, lease_owner = id,
                             lease_until = now() + interval '1 hour' RETURNING id)
         UPDATE sessions SET queued = 0, active_run_id = run.id FROM run",
    )
    .execute(&pool)
    .await
    .unwrap();
    delete_successfully(&session).await;
    assert_eq!(tables_with(&pool, &[session.uuid()]).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_with_a_stale_version_is_refused() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let session = app.session().await;
    session.ask("Are you there?").await;
    let url = app.url(&session.path(""));
    let stale = app.client.delete(&url).header("if-match", "\"v0\"").send().await.unwrap();
    problem(stale, 412, "version_mismatch").await;
    let now = app.get(&session.path("")).send().await.unwrap().headers()["etag"].clone();
    let accepted = app.client.delete(&url).header("if-match", now).send().await.unwrap();
    assert_eq!(accepted.status(), 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_during_a_deletion_is_refused_or_deleted_too() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let pool = app.database.pool(1);
    for round in 0..10 {
        let session = app.session().await;
        let body = json!({ "content": format!("Hello {round}") });
        let posts = join_all((0..6).map(|_| session.message(&body).send()));
        let (posts, ()) = tokio::join!(posts, delete_successfully(&session));
        for response in posts {
            let response = response.unwrap();
            if response.status() != 202 {
                problem(response, 404, "session_not_found").await;
            }
        }
        assert_eq!(tables_with(&pool, &[session.uuid()]).await, Vec::<String>::new());
    }
}
