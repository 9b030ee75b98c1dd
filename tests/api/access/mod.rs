//! Authentication, scopes, tenants and limits of callers.

mod browser_guard;
mod browser_tokens;
mod caching;
mod database_unavailable;
mod every_route;
mod file_permissions;
mod process_secrets;
mod quotas;
mod rate_limits;
mod revocation;
mod secrets_in_logs;
mod stored_bytes;
mod tenants;
mod tokens;
mod unknown_keys;

use std::time::Duration;

use serde_json::{Value, json};
use twostep::domain::api_key::{ApiKey, Scope};
use twostep::domain::ids::TenantId;

use crate::support::{TestApp, keys_needed, problem, replies, says};

/// The time within which every process refuses a revoked key.
const REVOCATION_TIME: Duration = Duration::from_secs(5);

async fn start() -> TestApp {
    TestApp::start_with(replies(&[says("Hello.")]), keys_needed()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_accepted_in_either_header_and_two_different_keys_are_refused() {
    let app = start().await;
    let [key, other] = [
        app.database.key(TenantId::DEFAULT, Scope::Write).await.reveal(),
        app.database.key(TenantId::DEFAULT, Scope::Write).await.reveal(),
    ];
    let get = || app.get_as(None, "/v1/sessions");
    for request in [
        get().bearer_auth(&key),
        get().header("x-api-key", &key),
        get().bearer_auth(&key).header("x-api-key", &key),
    ] {
        assert_eq!(request.send().await.unwrap().status(), 200);
    }
    let both = get().bearer_auth(&key).header("x-api-key", &other).send().await.unwrap();
    problem(both, 401, "unauthenticated").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_belongs_to_the_tenant_of_the_key_that_created_it() {
    let app = start().await;
    let tenant = app.database.tenant("acme").await;
    let key = app.database.key(tenant, Scope::Write).await.reveal();
    let session = app.session().await;
    assert_eq!(session.ask("Hello").await["output_text"], "Hello.");

    let foreign = app.get_as(Some(&key), &session.path("")).send().await.unwrap();
    problem(foreign, 404, "session_not_found").await;
    let list = app.get_as(Some(&key), "/v1/sessions").send().await.unwrap();
    assert_eq!(list.json::<Value>().await.unwrap()["data"], json!([]));
    let usage = app.get_as(Some(&key), "/v1/usage").send().await.unwrap();
    assert_eq!(usage.json::<Value>().await.unwrap()["data"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_invalid_keys_get_the_same_response_and_a_missing_one_another() {
    let app = start().await;
    let unknown = ApiKey::generate().unwrap().reveal();
    let expired = app.database.key(TenantId::DEFAULT, Scope::Write).await;
    app.database.set(&expired, "expires_at = now()").await;
    let revoked = app.database.key(TenantId::DEFAULT, Scope::Write).await;
    app.database.set(&revoked, "revoked_at = now()").await;
    let good = app.database.key(TenantId::DEFAULT, Scope::Write).await.reveal();
    // Another secret under a known id.
    let wrong = format!("{}_{}", good.rsplit_once('_').unwrap().0, "0".repeat(64));
    let mut responses = Vec::new();
    for key in ["nonsense", &*unknown, &*expired.reveal(), &*revoked.reveal(), &*wrong] {
        let response = app.get_as(Some(key), "/v1/sessions").send().await.unwrap();
        let mut headers = response.headers().clone();
        assert_eq!(headers["www-authenticate"], "Bearer error=\"invalid_token\"");
        headers.remove("x-request-id");
        headers.remove("date");
        headers.remove("content-length");
        let mut body = problem(response, 401, "unauthenticated").await;
        body["request_id"].take();
        responses.push((headers, body));
    }
    responses.dedup();
    assert_eq!(responses.len(), 1, "{responses:#?}");
    let detail = responses[0].1["detail"].as_str().unwrap();
    assert!(detail.contains("unknown, expired or revoked"), "{detail}");

    let missing = app.get_as(None, "/v1/sessions").send().await.unwrap();
    assert_eq!(missing.headers()["www-authenticate"], "Bearer");
    let missing = problem(missing, 401, "unauthenticated").await;
    assert!(missing["detail"].as_str().unwrap().starts_with("an API key is required"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_with_scope_read_cannot_write() {
    let app = start().await;
    let key = app.database.key(TenantId::DEFAULT, Scope::Read).await.reveal();
    assert_eq!(app.get_as(Some(&key), "/v1/sessions").send().await.unwrap().status(), 200);
    let post = app.post("/v1/sessions").header("x-api-key", &key);
    let refused = problem(post.send().await.unwrap(), 403, "forbidden").await;
    assert_eq!(refused["detail"], "the key lacks the scope `write`");
    let list: Value = app.get("/v1/sessions").send().await.unwrap().json().await.unwrap();
    assert_eq!(list["data"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_without_authentication_ignores_keys() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session = app.session().await;
    for key in [None, Some("nonsense"), Some(&*ApiKey::generate().unwrap().reveal())] {
        let read = app.get_as(key, &session.path("")).send().await.unwrap();
        assert_eq!(read.status(), 200);
    }
}
