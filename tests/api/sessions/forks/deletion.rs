//! Deleting sessions that have forks, and forks.

use reqwest::Response;
use serde_json::{Value, json};

use super::{fork, messages, request, told, until_waiting};
use crate::support::{
    Session, Setup, TestApp, calls, hangs_first, machine, problem, replies, says, tables_with,
};

async fn delete(session: &Session<'_>, query: &str) -> Response {
    let url = session.app.url(&session.path(query));
    session.app.client.delete(url).send().await.unwrap()
}

async fn is_there(session: &Session<'_>) -> bool {
    session.app.get(&session.path("")).send().await.unwrap().status() == 200
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_has_forks_is_not_deleted_without_them() {
    let writes = calls("Write", json!({ "file_path": "a.txt", "content": "mine" }));
    let setup = Setup { own_folders: true, ..Setup::default() };
    let app = TestApp::start_with(replies(&[writes, says("Written.")]), setup).await;
    let source = app.session_with(json!({ "tools": ["Write"] })).await;
    source.ask("Write").await;
    let one = fork(&source, &json!({})).await;
    one.ask("And here").await;
    let two = fork(&source, &json!({ "after": 2 })).await;
    let inner = fork(&one, &json!({})).await;
    let others = app.session_with(json!({ "tools": ["Write"] })).await;
    others.ask("Write, too").await;

    let refused = problem(delete(&source, "").await, 409, "session_has_forks").await;
    assert_eq!(refused["forks"], json!([one.id, two.id]));
    problem(delete(&source, "?forks=keep").await, 400, "invalid_query").await;
    for session in [&source, &one, &two, &inner] {
        assert!(is_there(session).await);
    }
    // A fork that has none goes, and leaves its source as it was.
    let before = messages(&source).await;
    assert_eq!(delete(&inner, "").await.status(), 204);
    assert_eq!(messages(&source).await, before);
    assert_eq!(messages(&one).await.len(), 8);
    let inner = fork(&one, &json!({})).await;

    let pool = app.database.pool(1);
    let gone = [&source, &one, &two, &inner];
    let all = ["events", "inherited", "messages", "requests", "runs", "seen_files", "sessions"];
    assert_eq!(
        tables_with(&pool, &gone.map(Session::uuid)).await,
        [&all[..], &["tool_calls"]].concat()
    );
    assert_eq!(delete(&source, "?forks=delete").await.status(), 204);
    assert_eq!(tables_with(&pool, &gone.map(Session::uuid)).await, Vec::<String>::new());
    let workspaces = app.folder.path().join("workspaces");
    for session in gone {
        assert!(!workspaces.join(&session.id).exists());
        problem(delete(session, "").await, 404, "session_not_found").await;
    }
    assert!(workspaces.join(&others.id).join("a.txt").exists());
    others.ask("And again").await;
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_in_forks_is_stopped_before_they_go() {
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
    let asked = tokio::time::Instant::now();
    assert_eq!(delete(&source, "?forks=delete").await.status(), 204);
    assert!(
        asked.elapsed() < machine::scaled(std::time::Duration::from_secs(4)),
        "{:?}",
        asked.elapsed()
    );
    for stream in streams {
        let told = stream.rest().await;
        assert!(told.iter().any(|event| event.name == "user.interrupt"), "{told:?}");
        assert_eq!(told.last().unwrap().name, "session.deleted");
    }
    let pool = app.database.pool(1);
    assert_eq!(
        tables_with(&pool, &[&source, &branch, &inner].map(Session::uuid)).await,
        Vec::<String>::new()
    );
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_not_the_newest_deletes_no_fork() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let source = app.session().await;
    source.ask("one").await;
    let branch = fork(&source, &json!({})).await;
    let url = app.url(&source.path("?forks=delete"));
    let old = app.client.delete(url).header("if-match", "\"v1\"").send().await.unwrap();
    problem(old, 412, "version_mismatch").await;
    assert!(is_there(&branch).await);
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_counts_until_a_run_is_asked_to_stop() {
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
        // A fork is nothing that happens in its source, but has all be looked at again.
        until_waiting(&pool, 1).await;
        fork(&source, &json!({})).await;
        let post = source.message(&body).send();
        let let_go = async {
            until_waiting(&pool, 2).await;
            reader.rollback().await.unwrap();
        };
        tokio::join!(post, let_go).0.unwrap().status()
    };
    let (refused, accepted) = tokio::join!(deletion, between);
    assert_eq!(accepted, 202);
    problem(refused.unwrap(), 412, "version_mismatch").await;
    assert!(is_there(&source).await);
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_of_the_same_moment_are_refused_or_go_too() {
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
        let mut left = Vec::new();
        for response in forks {
            let response = response.unwrap();
            if response.status() == 201 {
                let fork: Value = response.json().await.unwrap();
                left.push(app.existing_session(fork["id"].as_str().unwrap()));
            } else {
                problem(response, 404, "session_not_found").await;
            }
        }
        for session in left.iter().chain([&source, &inner]) {
            assert!(!is_there(session).await, "{round}");
        }
    }
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_of_a_session_that_is_not_there_is_refused() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let source = app.session().await;
    source.ask("one").await;
    let branch = told(&source, &json!({})).await;
    assert_eq!(delete(&source, "?forks=delete").await.status(), 204);
    problem(request(&source, &json!({})).send().await.unwrap(), 404, "session_not_found").await;
    let branch = app.existing_session(branch["id"].as_str().unwrap());
    problem(request(&branch, &json!({})).send().await.unwrap(), 404, "session_not_found").await;
    for path in ["/v1/sessions/ses_1/forks", &branch.path("/forks")] {
        problem(app.get(path).send().await.unwrap(), 404, "session_not_found").await;
    }
    app.end_refused(&[]);
}
