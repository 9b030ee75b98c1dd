//! Connections that clients close.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{post, runs, session_of, user};
use crate::support::{TestApp, hangs_first};

async fn status_of(app: &TestApp, session: &str, expected: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let run = runs(app, session).await[0].clone();
        if run["status"] == expected {
            return run;
        }
        assert!(Instant::now() < deadline, "{run}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_the_connection_cancels_the_run() {
    let app = TestApp::start(hangs_first()).await;
    let stream = post(&app, &[user("hang")], json!({ "stream": true }));
    let mut response = stream.send().await.unwrap();
    let session = session_of(&response);
    response.chunk().await.unwrap();
    drop(response);
    status_of(&app, &session, "cancelled").await;

    let named = json!({ "metadata": { "session_id": "chat-2" } });
    let document = post(&app, &[user("hang")], named).timeout(Duration::from_secs(2));
    assert!(document.send().await.unwrap_err().is_timeout());
    let page = app.get("/v1/sessions?external_id=chat-2").send().await.unwrap();
    let page: Value = page.json().await.unwrap();
    status_of(&app, page["data"][0]["id"].as_str().unwrap(), "cancelled").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_if_the_request_says_so() {
    let app = TestApp::start(hangs_first()).await;
    let body = json!({ "model": "default", "messages": [user("hang")], "stream": true });
    let path = "/openai/v1/chat/completions?on_disconnect=continue";
    let mut response = app.post(path).json(&body).send().await.unwrap();
    let session = session_of(&response);
    response.chunk().await.unwrap();
    drop(response);
    // A message that is queued behind the run is accepted after the closed connection was noticed.
    let next = app.post(&format!("/v1/sessions/{session}/messages"));
    let next = next.json(&json!({ "content": "Hello" })).send().await.unwrap();
    assert_eq!(next.status(), 202);
    assert_eq!(runs(&app, &session).await[0]["status"], "running");
    let cancel = app.post(&format!("/v1/sessions/{session}/cancel")).send().await.unwrap();
    assert!(cancel.status().is_success());
    status_of(&app, &session, "cancelled").await;
}
