//! Deleting a session: nothing of it stays but what it used, and nobody is left waiting for it.

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
    Session, Setup, TestApp, asks, calls, hangs_first, machine, problem, replies, says, tables_with,
};

async fn delete(session: &Session<'_>) -> Response {
    let url = session.app.url(&session.path(""));
    session.app.client.delete(url).send().await.unwrap()
}

async fn deleted(session: &Session<'_>) {
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

/// A service whose sessions write a file in a folder of their own.
async fn writing() -> TestApp {
    let writes = calls("Write", json!({ "file_path": "a/b.txt", "content": "mine" }));
    let setup = Setup { own_folders: true, ..Setup::default() };
    TestApp::start_with(replies(&[writes, says("Written.")]), setup).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_deleted_session_stays() {
    let app = writing().await;
    let pool = app.database.pool(1);
    let budget = Budget { tokens: Some(1_000_000), cost: None };
    set(&mut pool.acquire().await.unwrap(), TenantId::DEFAULT, Period::Total, budget)
        .await
        .unwrap();
    let new = json!({ "tools": ["Write"] });
    let (gone, kept) = (app.session_with(new.clone()).await, app.session_with(new).await);
    kept.ask("Write it.").await;
    gone.ask("Write it, too.").await;
    let ids_gone = ids(&pool, &gone).await;
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
    assert_eq!(tables_with(&pool, &ids_gone).await, all);
    let kept_before = (kept.history().await, kept.events().await);
    let spent: i64 = sqlx::query_scalar(
        "SELECT (SELECT tokens FROM budgets) + (SELECT sum(tokens) FROM reservations)::bigint",
    )
    .fetch_one(&pool)
    .await
    .unwrap();

    deleted(&gone).await;
    let standings = list(&mut pool.acquire().await.unwrap(), TenantId::DEFAULT).await.unwrap();
    assert_eq!(standings.into_iter().map(|standing| standing.tokens).collect::<Vec<_>>(), [spent]);
    assert_eq!(tables_with(&pool, &ids_gone).await, Vec::<String>::new());
    let folder = |session: &Session<'_>| app.folder.path().join("workspaces").join(&session.id);
    assert!(!folder(&gone).exists());
    for path in ["", "/messages", "/events", "/runs", "/events/stream", "/usage", "/verify"] {
        let response = app.get(&gone.path(path)).send().await.unwrap();
        problem(response, 404, "session_not_found").await;
    }
    let lost = gone.message(&json!({ "content": "Hello" })).send().await.unwrap();
    problem(lost, 404, "session_not_found").await;
    problem(delete(&gone).await, 404, "session_not_found").await;

    assert_eq!((kept.history().await, kept.events().await), kept_before);
    assert!(folder(&kept).join("a/b.txt").exists());
    kept.ask("And again?").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_somebody_has_named_stays() {
    let writes = calls("write_file", json!({ "path": "kept.txt", "content": "theirs" }));
    let app = TestApp::start(replies(&[writes, says("Written.")])).await;
    let session = app.session().await;
    session.ask("Write it.").await;
    deleted(&session).await;
    assert_eq!(std::fs::read_to_string(app.folder.path().join("kept.txt")).unwrap(), "theirs");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_deleted_session_used_counts_on() {
    let app = writing().await;
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
    let before = join_all(by.iter().map(|path| get(&app, path))).await;
    for session in &sessions {
        deleted(session).await;
        assert_eq!(join_all(by.iter().map(|path| get(&app, path))).await, before);
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

    // A budget that is younger than the deletion knows of it.
    let mut conn = pool.acquire().await.unwrap();
    let budget = Budget { tokens: Some(1_000_000), cost: Some(1_000_000) };
    set(&mut conn, TenantId::DEFAULT, Period::Total, budget).await.unwrap();
    let standing = list(&mut conn, TenantId::DEFAULT).await.unwrap().remove(0);
    let usage = &before[0]["total"]["usage"];
    let kinds =
        ["input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    let tokens: i64 = kinds.iter().map(|kind| usage[kind].as_i64().unwrap_or(0)).sum();
    assert_eq!((standing.tokens, standing.cost), (tokens, 15));
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_is_stopped_and_readers_are_told() {
    let app = TestApp::start(hangs_first()).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "hang" })).await;
    session.reached(&run, "span.model_request_start").await;
    let waiting = session.post(json!({ "content": "Next." })).await;
    let whole = session.open(&session.path("/events/stream"), None).await;
    let waits = session.open(&session.run_stream(&waiting), None).await;
    let asked = Instant::now();
    deleted(&session).await;
    assert!(asked.elapsed() < machine::scaled(Duration::from_secs(3)), "{:?}", asked.elapsed());

    let told = whole.rest().await;
    let last = told.last().unwrap();
    let farewell = json!({ "type": "session.deleted", "session_id": session.id });
    assert_eq!((last.id, &last.data), (None, &farewell));
    let ends = told.iter().filter(|event| event.name == "session.status_idle").count();
    assert!(ends <= 2, "{told:?}");
    let last = waits.rest().await.pop().unwrap().name;
    assert!(["session.status_idle", "session.deleted"].contains(&last.as_str()), "{last}");
    assert_eq!(tables_with(&app.database.pool(1), &[session.uuid()]).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_somebody_does_not_hold_its_session() {
    let app = TestApp::start_with(
        replies(&[calls("write_file", json!({ "path": "a", "content": "b" })), says("Done.")]),
        asks(),
    )
    .await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Write it." })).await;
    session.reached(&run, "session.status_idle").await;
    deleted(&session).await;
    assert!(!app.folder.path().join("a").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_an_answer_hears_that_there_will_be_none() {
    let app = idle().await;
    let session = app.session().await;
    let waits = session.message(&json!({ "content": "Hello" })).header("prefer", "wait=60").send();
    let deletes = async {
        let deadline = Instant::now() + Duration::from_secs(30);
        while session.events().await.is_empty() {
            assert!(Instant::now() < deadline, "the message was not accepted");
            sleep(Duration::from_millis(10)).await;
        }
        deleted(&session).await;
    };
    let asked = Instant::now();
    let (response, ()) = tokio::join!(waits, deletes);
    problem(response.unwrap(), 404, "session_not_found").await;
    assert!(asked.elapsed() < machine::scaled(Duration::from_secs(30)), "{:?}", asked.elapsed());
}

/// A service that works on no runs.
async fn idle() -> TestApp {
    TestApp::start_with(replies(&[]), Setup { no_worker: true, ..Setup::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_worker_that_is_dead_goes_too() {
    let app = idle().await;
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
    deleted(&session).await;
    assert_eq!(tables_with(&pool, &[session.uuid()]).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_not_the_newest_deletes_nothing() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let session = app.session().await;
    session.ask("Are you there?").await;
    let url = app.url(&session.path(""));
    let stale = app.client.delete(&url).header("if-match", "\"v0\"").send().await.unwrap();
    problem(stale, 412, "version_mismatch").await;
    let now = app.get(&session.path("")).send().await.unwrap().headers()["etag"].clone();
    let done = app.client.delete(&url).header("if-match", now).send().await.unwrap();
    assert_eq!(done.status(), 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_the_same_moment_is_refused_or_goes_too() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let pool = app.database.pool(1);
    for round in 0..10 {
        let session = app.session().await;
        let body = json!({ "content": format!("Hello {round}") });
        let posts = join_all((0..6).map(|_| session.message(&body).send()));
        let (posts, ()) = tokio::join!(posts, deleted(&session));
        for response in posts {
            let response = response.unwrap();
            if response.status() != 202 {
                problem(response, 404, "session_not_found").await;
            }
        }
        assert_eq!(tables_with(&pool, &[session.uuid()]).await, Vec::<String>::new());
    }
}
