//! The quota of stored bytes: it counts what a request stores, and nothing of refused requests.

use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use twostep::domain::quota::QuotaResource;

use super::quotas::{fork, limited, noise, refused, usage};
use crate::support::{Session, TestApp, problem, replies, says};

async fn start(limit: i64) -> TestApp {
    let setup = limited(QuotaResource::StoredBytes, limit);
    TestApp::start_with(replies(&[says("Hello.")]), setup).await
}

async fn patch(session: &Session<'_>, body: Value) -> Response {
    let url = session.app.url(&session.path(""));
    session.app.client.patch(url).json(&body).send().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_session_over_the_quota_of_stored_bytes_are_refused() {
    let app = start(100_000).await;
    let session = app.session().await;
    // Each change stores an event with the metadata.
    let mut accepted = 0;
    let refusal = loop {
        let metadata = json!({ "a": noise(15_000), "n": accepted });
        let response = patch(&session, json!({ "metadata": metadata })).await;
        if response.status() != StatusCode::OK {
            break response;
        }
        accepted += 1;
        assert!(accepted < 10, "the quota does not apply");
    };
    assert!(accepted > 4, "{accepted}");
    let quota = refused(refusal, 507).await;
    assert!(quota["needed"].as_i64().unwrap() > 15_000, "{quota}");
    // The refused change stored nothing, and a change of nothing is allowed.
    assert_eq!(patch(&session, json!({ "archived": false })).await.status(), 200);
    let used = usage(&app, "stored_bytes").await[0].as_i64().unwrap();
    assert!((75_000..=100_000).contains(&used), "{used}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_counts_with_the_event_that_repeats_it() {
    let app = start(100_000).await;
    let session = app.session().await;
    let message = json!({ "content": noise(60_000) });
    let quota = refused(session.message(&message).send().await.unwrap(), 507).await;
    assert!(quota["needed"].as_i64().unwrap() >= 120_000, "{quota}");
    let send = |_| session.message(&json!({ "content": noise(30_000) })).send();
    let responses = futures::future::join_all((0..6).map(send)).await;
    let is_accepted = |response: &Response| response.status().is_success();
    let accepted = responses.into_iter().map(Result::unwrap).filter(is_accepted).count();
    assert_eq!(accepted, 1);
    app.has_settled("completed", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_messages_use_nothing_of_the_quota() {
    let app = start(400_000).await;
    let session = app.session().await;
    let message = json!({ "content": noise(150_000) });
    let missing = format!("/v1/sessions/ses_{:032}/messages", 0);
    for _ in 0..3 {
        let response = app.post(&missing).json(&message).send().await.unwrap();
        problem(response, 404, "session_not_found").await;
        let outdated = session.message(&message).header("if-match", "\"v999\"");
        problem(outdated.send().await.unwrap(), 412, "version_mismatch").await;
    }
    assert!(session.message(&message).send().await.unwrap().status().is_success());
    app.has_settled("completed", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_counts_its_copy_of_the_settings() {
    let app = start(100_000).await;
    let session = app.session_with(json!({ "system": noise(60_000) })).await;
    let quota = refused(fork(&session, json!({})).await, 507).await;
    assert!(quota["needed"].as_i64().unwrap() > 40_000, "{quota}");
    let used = usage(&app, "stored_bytes").await[0].as_i64().unwrap();
    assert!(used < 80_000, "{used}");
}
