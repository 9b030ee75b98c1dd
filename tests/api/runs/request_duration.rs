//! The reported duration of a request that fails.

use serde_json::{Value, json};

use crate::support::{TestApp, replies};

/// The time after which the model server refuses.
const DELAY_MS: i64 = 50;

#[tokio::test(flavor = "multi_thread")]
async fn the_duration_of_a_failed_request_is_reported() {
    let error = json!({ "type": "invalid_request_error", "message": "No." });
    let reply = json!({ "status": 400, "error": error, "delay_ms": DELAY_MS });
    let app = TestApp::start(replies(&[reply])).await;
    let session = app.session().await;
    let run = session.ask("Hello").await;
    assert_eq!(run["status"], "failed");
    let events = session.events().await;
    let end = events.iter().find(|event| event["type"] == "span.model_request_end").unwrap();
    let path = session.path(&format!("/runs/{}/requests", run["id"].as_str().unwrap()));
    let requests: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
    assert_eq!(end["duration_ms"], requests["data"][0]["duration_ms"]);
    assert!(end["duration_ms"].as_i64().unwrap() >= DELAY_MS, "{end}");
    app.end_refused(&[]);
}
