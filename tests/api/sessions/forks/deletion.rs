//! Deletion of forks and of sessions with forks.

use reqwest::Response;
use serde_json::{Value, json};

use super::{create_fork, fork, messages, request, wait_for_lock_waits};
use crate::support::{
    Session, Setup, TestApp, calls, hangs_first, problem, replies, says, tables_with,
};

async fn delete(session: &Session<'_>, query: &str) -> Response {
    let url = session.app.url(&session.path(query));
    session.app.client.delete(url).send().await.unwrap()
}

async fn exists(session: &Session<'_>) -> bool {
    session.app.get(&session.path("")).send().await.unwrap().status() == 200
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_forks_is_deleted_only_together_with_them() {
    let write = calls("Write", json!({ "file_path": "a.txt", "content": "mine" }));
    let setup = Setup { own_folders: true, ..Setup::default() };
    let app = TestApp::start_with(replies(&[write, says("Written.")]), setup).await;
    let source = app.session_with(json!({ "tools": ["Write"] })).await;
    source.ask("Write").await;
    let one = fork(&source, &json!({})).await;
    one.ask("And here").await;
    let two = fork(&source, &json!({ "after": 2 })).await;
    let inner = fork(&one, &json!({})).await;
    let other = app.session_with(json!({ "tools": ["Write"] })).await;
    other.ask("Write, too").await;

    let refused = problem(delete(&source, "").await, 409, "session_has_forks").await;
    assert_eq!(refused["forks"], json!([one.id, two.id]));
    problem(delete(&source, "?forks=keep").await, 400, "invalid_query").await;
    for session in [&source, &one, &two, &inner] {
        assert!(exists(session).await);
    }
    // Deleting a fork without forks does not change its source.
    let before = messages(&source).await;
    assert_eq!(delete(&inner, "").await.status(), 204);
    assert_eq!(messages(&source).await, before);
    assert_eq!(messages(&one).await.len(), 8);
    let inner = fork(&one, &json!({})).await;

    let pool = app.database.pool(1);
    let deleted = [&source, &one, &two, &inner];
    let all = ["events", "inherited", "messages", "requests", "runs", "seen_files", "sessions"];
    assert_eq!(
        tables_with(&pool, &deleted.map(Session::uuid)).await,
        [&all[..], &["tool_calls", "workspace_sizes"]].concat()
    );
    assert_eq!(delete(&source, "?forks=delete").await.status(), 204);
    assert_eq!(tables_with(&pool, &deleted.map(Session::uuid)).await, Vec::<String>::new());
    let workspaces = app.folder.path().join("workspaces");
    for session in deleted {
        assert!(!workspaces.join(&session.id).exists());
        problem(delete(session, "").await, 404, "session_not_found").await;
    }
    assert!(workspaces.join(&other.id).join("a.txt").exists());
    other.ask("And again").await;
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_forks_are_cancelled_before_the_forks_are_deleted() {
    let app = TestApp::start(hangs_first()).await;
    let source = app.session().await;
    source.ask("one").await;
    let branch = fork(&source, &json!({})).await;
    let inner = fork(&branch, &json!({})).await;
    let mut streams = Vec::new();
    for session in [&source, &branch, &inner] {
        let run = session.post(json!({ "content": "hang" })).await;
        session.reached(&run, "span.model_request_start").await;
        streams.push(session.open(&session.path("/events/stream"), None).await);
    }
    assert_eq!(delete(&source, "?forks=delete").await.status(), 204);
    // A worker that does not settle its run in time is fenced instead.
    app.has_settled("cancelled", 3).await;
    for stream in streams {
        let events = stream.rest().await;
        assert!(events.iter().any(|event| event.name == "user.interrupt"), "{events:?}");
        assert_eq!(events.last().unwrap().name, "session.deleted");
    }
    let pool = app.database.pool(1);
    assert_eq!(
        tables_with(&pool, &[&source, &branch, &inner].map(Session::uuid)).await,
        Vec::<String>::new()
    );
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_of_forks_with_a_stale_version_is_refused() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let source = app.session().await;
    source.ask("one").await;
    let branch = fork(&source, &json!({})).await;
    let url = app.url(&source.path("?forks=delete"));
    let old = app.client.delete(url).header("if-match", "\"v1\"").send().await.unwrap();
    problem(old, 412, "version_mismatch").await;
    assert!(exists(&branch).await);
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_before_runs_are_cancelled_makes_the_version_of_a_deletion_stale() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let source = app.session().await;
    source.ask("one").await;
    let version = app.get(&source.path("")).send().await.unwrap().headers()["etag"].clone();
    let url = app.url(&source.path("?forks=delete"));
    let deletion = app.client.delete(url).header("if-match", version).send();

    let pool = app.database.pool(2);
    let mut reader = pool.begin().await.unwrap();
    sqlx::query("SELECT FROM sessions FOR SHARE").execute(&mut *reader).await.unwrap();
    let body = json!({ "content": "two" });
    let between = async {
        // A fork does not change the version of its source, but makes the deletion start again.
        wait_for_lock_waits(&pool, 1).await;
        fork(&source, &json!({})).await;
        let post = source.message(&body).send();
        let release = async {
            wait_for_lock_waits(&pool, 2).await;
            reader.rollback().await.unwrap();
        };
        tokio::join!(post, release).0.unwrap().status()
    };
    let (refused, accepted) = tokio::join!(deletion, between);
    assert_eq!(accepted, 202);
    problem(refused.unwrap(), 412, "version_mismatch").await;
    assert!(exists(&source).await);
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_during_a_deletion_are_refused_or_deleted_too() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    for round in 0..8 {
        let source = app.session().await;
        source.ask(&format!("one {round}")).await;
        let inner = fork(&source, &json!({})).await;
        let forks = futures::future::join_all((0..6).map(|at| {
            let from = if at % 2 == 0 { &source } else { &inner };
            request(from, &json!({})).send()
        }));
        let (deleted, forks) = tokio::join!(delete(&source, "?forks=delete"), forks);
        assert_eq!(deleted.status(), 204);
        let mut created = Vec::new();
        for response in forks {
            let response = response.unwrap();
            if response.status() == 201 {
                let fork: Value = response.json().await.unwrap();
                created.push(app.existing_session(fork["id"].as_str().unwrap()));
            } else {
                problem(response, 404, "session_not_found").await;
            }
        }
        for session in created.iter().chain([&source, &inner]) {
            assert!(!exists(session).await, "{round}");
        }
    }
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_of_a_session_that_does_not_exist_is_refused() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let source = app.session().await;
    source.ask("one").await;
    let branch = create_fork(&source, &json!({})).await;
    assert_eq!(delete(&source, "?forks=delete").await.status(), 204);
    problem(request(&source, &json!({})).send().await.unwrap(), 404, "session_not_found").await;
    let branch = app.existing_session(branch["id"].as_str().unwrap());
    problem(request(&branch, &json!({})).send().await.unwrap(), 404, "session_not_found").await;
    for path in ["/v1/sessions/ses_1/forks", &branch.path("/forks")] {
        problem(app.get(path).send().await.unwrap(), 404, "session_not_found").await;
    }
    app.end_refused(&[]);
}
