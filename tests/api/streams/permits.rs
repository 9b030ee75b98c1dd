//! Stream permits: the number of open streams is limited, per service and per key.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use twostep::domain::api_key::Scope;
use twostep::domain::ids::TenantId;

use crate::support::{Session, Setup, TestApp, client_with, keys_needed, problem, replies, says};

/// Repeats a request for a stream until a permit is free.
async fn open_when_free(request: impl Fn() -> reqwest::RequestBuilder) -> reqwest::Response {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let response = request().send().await.unwrap();
        if response.status() == 200 {
            return response;
        }
        assert!(Instant::now() < deadline, "the permit was not released");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn assert_refused(response: reqwest::Response, detail: &str) {
    assert_eq!(response.headers()["retry-after"], "1");
    let problem = problem(response, 503, "too_many_streams").await;
    assert_eq!(problem["detail"], detail);
}

async fn post_streamed(session: &Session<'_>) -> reqwest::Response {
    let post = session.message(&json!({ "content": "Hi" }));
    post.header("accept", "text/event-stream").send().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_limits_open_streams_and_a_closed_one_releases_its_permit() {
    let setup = Setup { max_streams: Some(2), ..Setup::default() };
    let app = TestApp::start_with(replies(&[says("Hello.")]), setup).await;
    let session = app.session().await;
    let path = session.path("/events/stream");
    let first = session.open(&path, None).await;
    let _second = session.open(&path, None).await;
    let full = "the service has too many streams open";
    assert_refused(app.get(&path).send().await.unwrap(), full).await;
    // A message whose stream has no permit is not accepted.
    assert_refused(post_streamed(&session).await, full).await;
    assert_eq!(session.events().await, Vec::<Value>::new());
    assert_eq!(session.ask("Hi").await["output_text"], "Hello.");

    drop(first);
    open_when_free(|| app.get(&path)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_key_has_a_separate_limit_of_open_streams() {
    let setup = Setup { max_streams_per_key: Some(1), ..keys_needed() };
    let app = TestApp::start_with(replies(&[says("Hello.")]), setup).await;
    let session = app.session().await;
    let path = session.path("/events/stream");
    let reader = client_with(Some(&app.database.key(TenantId::DEFAULT, Scope::Read).await));
    let held = session.open(&path, None).await;
    assert_refused(app.get(&path).send().await.unwrap(), "this key has too many streams open")
        .await;
    assert_eq!(reader.get(app.url(&path)).send().await.unwrap().status(), 200);
    drop(held);
    open_when_free(|| app.get(&path)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_only_the_limit_of_the_service_applies() {
    let setup = Setup { max_streams_per_key: Some(1), ..Setup::default() };
    let app = TestApp::start_with(replies(&[says("Hello.")]), setup).await;
    let session = app.session().await;
    let path = session.path("/events/stream");
    let streams = [session.open(&path, None).await, session.open(&path, None).await];
    drop(streams);
}
