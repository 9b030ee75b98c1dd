//! The description of the service at `/v1/info`.

use serde_json::{Value, json};
use twostep::domain::run_options::OnBusy;

use crate::support::{Setup, TestApp, asks, keys_needed};

async fn info(app: &TestApp) -> Value {
    let response = app.get("/v1/info").send().await.unwrap();
    assert_eq!(response.status(), 200);
    response.json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_reports_its_version_limits_and_features() {
    let app = TestApp::start(json!({})).await;
    let expected = json!({
        "type": "info",
        "version": env!("CARGO_PKG_VERSION"),
        "api_version": "v1",
        "limits": {
            "message_bytes": 32_000_000,
            "body_bytes": 4 * 1024 * 1024,
            "page_items": 200,
            "wait_seconds": 120,
            "queued_messages": 16,
            "streams": 200,
            "webhooks": 20,
            "agents": 200,
        },
        "features": { "keys": false, "tokens": false, "bypass": true, "on_busy": "queue" },
        "adapters": { "ag_ui": true, "ai_sdk": true, "anthropic": true, "openai": true,
                      "openai_responses": true },
    });
    assert_eq!(info(&app).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_options_of_the_operator_are_reported() {
    let setup = Setup {
        max_message: Some(9_000_000),
        max_streams: Some(50),
        rate_limit: 600,
        on_busy: OnBusy::Reject,
        ..asks()
    };
    let Setup { needs_keys, .. } = keys_needed();
    let app = TestApp::start_with(json!({}), Setup { needs_keys, ..setup }).await;
    let Value::Object(info) = info(&app).await else { panic!("not an object") };
    let limits = ["message_bytes", "streams", "requests_per_minute"];
    assert_eq!(limits.map(|name| info["limits"][name].clone()), [9_000_000, 50, 600]);
    let expected = json!({ "keys": true, "tokens": false, "bypass": false, "on_busy": "reject" });
    assert_eq!(info["features"], expected);
}
