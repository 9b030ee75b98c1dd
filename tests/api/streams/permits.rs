//! More streams than there are places for.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use twostep::domain::api_key::Scope;
use twostep::domain::ids::TenantId;

use crate::support::{Session, Setup, TestApp, client_with, keys_needed, problem, replies, says};

/// Opens a stream as soon as there is a place again.
async fn opened(request: impl Fn() -> reqwest::RequestBuilder) -> reqwest::Response {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let response = request().send().await.unwrap();
        if response.status() == 200 {
            return response;
        }
        assert!(Instant::now() < deadline, "the place is not free again");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn refused(response: reqwest::Response, detail: &str) {
    assert_eq!(response.headers()["retry-after"], "1");
    let problem = problem(response, 503, "too_many_streams").await;
    assert_eq!(problem["detail"], detail);
}

async fn streamed_post(session: &Session<'_>) -> reqwest::Response {
    let post = session.message(&json!({ "content": "Hi" }));
    post.header("accept", "text/event-stream").send().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_holds_so_many_streams_and_one_that_ends_makes_room() {
    let setup = Setup { max_streams: Some(2), ..Setup::default() };
    let app = TestApp::start_with(replies(&[says("Hello.")]), setup).await;
    let session = app.session().await;
    let path = session.path("/events/stream");
    let first = session.open(&path, None).await;
    let _second = session.open(&path, None).await;
    let full = "the service has too many streams open";
    refused(app.get(&path).send().await.unwrap(), full).await;
    // Before its message is accepted.
    refused(streamed_post(&session).await, full).await;
    assert_eq!(session.events().await, Vec::<Value>::new());
    assert_eq!(session.ask("Hi").await["output_text"], "Hello.");

    drop(first);
    opened(|| app.get(&path)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_holds_so_many_streams_whatever_others_hold() {
    let setup = Setup { max_streams_per_key: Some(1), ..keys_needed() };
    let app = TestApp::start_with(replies(&[says("Hello.")]), setup).await;
    let session = app.session().await;
    let path = session.path("/events/stream");
    let reader = client_with(Some(&app.database.key(TenantId::DEFAULT, Scope::Read).await));
    let held = session.open(&path, None).await;
    refused(app.get(&path).send().await.unwrap(), "this key has too many streams open").await;
    assert_eq!(reader.get(app.url(&path)).send().await.unwrap().status(), 200);
    drop(held);
    opened(|| app.get(&path)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_only_the_places_of_the_service_count() {
    let setup = Setup { max_streams_per_key: Some(1), ..Setup::default() };
    let app = TestApp::start_with(replies(&[says("Hello.")]), setup).await;
    let session = app.session().await;
    let path = session.path("/events/stream");
    let streams = [session.open(&path, None).await, session.open(&path, None).await];
    drop(streams);
}
