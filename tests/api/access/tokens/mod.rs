//! Authentication with tokens of an identity provider.

mod configuration;
mod invalid_tokens;
mod key_rotation;
mod streams;

use futures::future::join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use twostep::domain::api_key::Scope;

use crate::support::{
    Identity, Setup, Signer, TestApp, client_with, problem, replies, says, trusting,
};

async fn start(setup: Setup) -> TestApp {
    TestApp::start_with(replies(&[says("Hello.")]), setup).await
}

/// A request with a token.
fn request(app: &TestApp, token: &str, method: Method, path: &str) -> RequestBuilder {
    client_with(None).request(method, app.url(path)).bearer_auth(token)
}

fn get(app: &TestApp, token: &str) -> RequestBuilder {
    app.get_as(Some(token), "/v1/sessions")
}

fn post(app: &TestApp, token: &str) -> RequestBuilder {
    request(app, token, Method::POST, "/v1/sessions")
}

async fn status(request: RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_every_algorithm_are_accepted() {
    let identity = Identity::start().await;
    let signers = [
        (Signer::rsa("rsa"), &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"][..]),
        (Signer::p256("p256"), &["ES256"]),
        (Signer::p384("p384"), &["ES384"]),
        (Signer::ed25519("ed25519"), &["EdDSA"]),
    ];
    identity.publish(&signers.each_ref().map(|(signer, _)| signer));
    let app = start(identity.trusted()).await;
    for (signer, algorithms) in &signers {
        for algorithm in *algorithms {
            let token = signer.sign(algorithm, &identity.claims(json!({})));
            assert_eq!(status(post(&app, &token)).await, 201, "{algorithm}");
        }
    }
    assert_eq!(identity.asked(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_accepted_in_the_headers_of_a_key_and_keys_stay_valid() {
    let identity = Identity::start().await;
    let app = start(identity.trusted()).await;
    let token = identity.token(json!({ "aud": ["others", "twostep-test"] }));
    let bare = || client_with(None).get(app.url("/v1/sessions"));
    assert_eq!(status(bare().bearer_auth(&token)).await, 200);
    assert_eq!(status(bare().header("x-api-key", &token)).await, 200);
    assert_eq!(status(bare().bearer_auth(&token).header("x-api-key", &token)).await, 200);
    assert_eq!(status(app.get("/v1/sessions")).await, 200);
    // Two different credentials are refused.
    let both = app.get("/v1/sessions").bearer_auth(&token).send().await.unwrap();
    problem(both, 401, "unauthenticated").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_allows_only_what_its_scopes_allow() {
    let identity = Identity::start().await;
    let app = start(identity.trusted()).await;
    for (scope, reads, writes) in [
        (json!("twostep:write"), 200, 201),
        (json!(["email", "twostep:read"]), 200, 403),
        (json!("openid email"), 403, 403),
        (json!(null), 403, 403),
    ] {
        let token = identity.token(json!({ "scope": scope }));
        let statuses = (status(get(&app, &token)).await, status(post(&app, &token)).await);
        assert_eq!(statuses, (reads, writes), "{scope}");
    }
    let token = identity.token(json!({ "scope": null, "tenant": "new" }));
    let refused = problem(get(&app, &token).send().await.unwrap(), 403, "forbidden").await;
    assert_eq!(refused["detail"], "the key lacks the scope `read`");
    assert_eq!(tenants(&app).await, ["default"]);
}

/// The names of all tenants.
async fn tenants(app: &TestApp) -> Vec<String> {
    let names = sqlx::query_scalar("SELECT name FROM tenants ORDER BY name");
    names.fetch_all(&app.database.pool(1)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_is_created_once_by_its_first_token_and_sees_only_its_own_sessions() {
    let identity = Identity::start().await;
    let app = start(identity.trusted()).await;
    let other = app.second_service(identity.trusted()).await;
    let acme = identity.token(json!({ "tenant": "acme" }));
    let created = join_all((0..8).map(async |_| {
        let there = other.post("/v1/sessions").build().unwrap().url().clone();
        let there = client_with(None).post(there).bearer_auth(&acme);
        (status(post(&app, &acme)).await, status(there).await)
    }));
    assert_eq!(created.await, [(201, 201); 8]);
    assert_eq!(tenants(&app).await, ["acme", "default"]);

    let session: Value = post(&app, &acme).send().await.unwrap().json().await.unwrap();
    let path = format!("/v1/sessions/{}", session["id"].as_str().unwrap());
    // For the default tenant the session does not exist.
    for request in [app.get(&path), request(&app, &identity.token(json!({})), Method::GET, &path)] {
        problem(request.send().await.unwrap(), 404, "session_not_found").await;
    }
    // A key of the same tenant can read the session.
    let id = sqlx::query_scalar("SELECT id FROM tenants WHERE name = 'acme'");
    let id: uuid::Uuid = id.fetch_one(&app.database.pool(1)).await.unwrap();
    let key = app.database.key(id.into(), Scope::Read).await.reveal();
    assert_eq!(status(app.get_as(Some(&key), &path)).await, 200);
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_sets_the_names_of_the_claims() {
    let identity = Identity::start().await;
    let mut rules = identity.rules();
    rules.tenant_claim = "https://example.com/org".to_owned();
    rules.scope_claim = "permissions".to_owned();
    rules.jwks_url = Some(format!("{}/../../keys", identity.issuer).parse().unwrap());
    // With the URL of the keys, the service does not need the discovery document.
    identity.set_issuer("http://127.0.0.1:1/");
    let app = start(trusting(rules)).await;
    let claims = json!({
        "https://example.com/org": "acme", "permissions": ["twostep:read"], "tenant": "other",
    });
    let token = identity.token(claims);
    assert_eq!((status(get(&app, &token)).await, status(post(&app, &token)).await), (200, 403));
    assert_eq!(tenants(&app).await, ["acme", "default"]);
}
