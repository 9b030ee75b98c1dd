//! Errors in the envelope of the protocol.

use reqwest::Client;
use serde_json::json;
use twostep::domain::api_key::{ApiKey, Scope};
use twostep::domain::ids::{SessionId, TenantId};

use super::{Sdk, refused};
use crate::support::{TestApp, client_with, keys_needed, replies};

#[tokio::test(flavor = "multi_thread")]
async fn the_type_of_an_error_follows_from_its_status() {
    let app = TestApp::start(replies(&[])).await;
    let sdk = Sdk::new(&app);
    let unknown = format!("/sessions/{}", SessionId::new());
    for (request, status, kind, code) in [
        (sdk.get(&unknown), 404, "not_found_error", "session_not_found"),
        (sdk.get("/sessions/sesn_1"), 404, "not_found_error", "session_not_found"),
        (sdk.get("/agents/none"), 404, "not_found_error", "agent_not_found"),
        (sdk.get("/environments/env_1"), 404, "not_found_error", "environment_not_found"),
        (sdk.get("/vaults"), 404, "not_found_error", "route_not_found"),
        (sdk.get("/memory_stores/m/memories"), 404, "not_found_error", "route_not_found"),
        (sdk.delete("/sessions"), 405, "invalid_request_error", "method_not_allowed"),
        (sdk.get("/sessions?colour=red"), 400, "invalid_request_error", "invalid_query"),
        (sdk.get("/sessions?limit=0"), 400, "invalid_request_error", "invalid_query"),
        (sdk.get("/sessions?page=ses_1"), 400, "invalid_request_error", "invalid_cursor"),
        (sdk.get("/sessions?statuses[]=lost"), 400, "invalid_request_error", "invalid_query"),
        (sdk.post("/sessions", &json!({})), 400, "invalid_request_error", "validation_failed"),
        (sdk.post("/agents", &json!({})).body("{"), 400, "invalid_request_error", "bad_json"),
        (
            app.post("/anthropic/v1/agents").header("content-type", "text/plain").body("{}"),
            415,
            "invalid_request_error",
            "unsupported_media_type",
        ),
    ] {
        let (seen, error) = refused(request).await;
        assert_eq!((seen, &error["type"]), (status, &json!(kind)), "{error}");
        assert_eq!(error["details"]["error_code"], code);
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_accepted_in_either_header_and_other_credentials_are_refused() {
    let app = TestApp::start_with(replies(&[]), keys_needed()).await;
    let key = app.database.key(TenantId::DEFAULT, Scope::Write).await.reveal();
    let url = app.url("/anthropic/v1/sessions");
    let plain = Client::new();
    let get = || plain.get(&url).header("anthropic-beta", "managed-agents-2026-04-01");
    for (name, value) in [("x-api-key", key.clone()), ("authorization", format!("Bearer {key}"))] {
        assert_eq!(get().header(name, value).send().await.unwrap().status(), 200);
    }
    let unknown = ApiKey::generate().unwrap().reveal();
    for request in [get(), get().header("x-api-key", unknown)] {
        let (status, error) = refused(request).await;
        assert_eq!((status, &error["type"]), (401, &json!("authentication_error")));
    }
    let reader = client_with(Some(&app.database.key(TenantId::DEFAULT, Scope::Read).await));
    let reader = Sdk::new(&app).with(reader);
    let (status, error) = refused(reader.post("/environments", &json!({ "name": "e" }))).await;
    assert_eq!((status, &error["type"]), (403, &json!("permission_error")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_has_the_id_of_its_request() {
    let app = TestApp::start(replies(&[])).await;
    let response = Sdk::new(&app).get("/agents").send().await.unwrap();
    assert_eq!(response.headers()["request-id"], response.headers()["x-request-id"]);
    let own = app.get("/v1/agents").send().await.unwrap();
    assert!(!own.headers().contains_key("request-id"));
}
