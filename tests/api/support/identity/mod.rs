//! An identity provider: a server with real keys that signs any token.

mod signer;

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::{Json, Router, routing};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, StatusCode};
use jiff::Timestamp;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use twostep::tokens::{Issuer, IssuerConfig, KeyRefresh};

use super::{Setup, keys_needed};
pub(crate) use signer::{Signer, encoded, signed_with_secret, unsigned};

/// The audience of the tokens of tests.
pub(crate) const AUDIENCE: &str = "twostep-test";

/// The response of the provider to a request for its keys.
#[derive(Debug, Clone)]
pub(crate) enum KeysResponse {
    /// These keys.
    Keys(Value),
    /// This text instead of keys.
    Text(String),
    /// This status.
    Status(u16),
    /// No response.
    Silent,
}

struct Endpoint {
    response: Mutex<KeysResponse>,
    asked: AtomicUsize,
    issuer: Mutex<String>,
}

/// A running identity provider.
pub(crate) struct Identity {
    pub(crate) issuer: String,
    pub(crate) signer: Signer,
    endpoint: Arc<Endpoint>,
    _task: AbortOnDropHandle<()>,
}

impl Identity {
    /// Starts a provider with one published key.
    pub(crate) async fn start() -> Self {
        Self::with(Signer::ed25519("first")).await
    }

    pub(crate) async fn with(signer: Signer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}/realms/test", listener.local_addr().unwrap());
        let endpoint = Arc::new(Endpoint {
            response: Mutex::new(KeysResponse::Keys(json!({ "keys": [signer.jwk()] }))),
            asked: AtomicUsize::new(0),
            issuer: Mutex::new(issuer.clone()),
        });
        let router = Router::new()
            .route("/realms/test/.well-known/openid-configuration", routing::get(discovery))
            .route("/keys", routing::get(keys))
            .with_state(Arc::clone(&endpoint));
        let serving = async { axum::serve(listener, router).await.unwrap() };
        let task = AbortOnDropHandle::new(TaskTracker::new().spawn(serving));
        Self { issuer, signer, endpoint, _task: task }
    }

    pub(crate) fn respond_with(&self, response: KeysResponse) {
        *self.endpoint.response.lock().unwrap() = response;
    }

    pub(crate) fn publish(&self, signers: &[&Signer]) {
        let keys: Vec<Value> = signers.iter().map(|signer| signer.jwk()).collect();
        self.respond_with(KeysResponse::Keys(json!({ "keys": keys })));
    }

    /// Sets another issuer in the discovery document.
    pub(crate) fn set_issuer(&self, issuer: &str) {
        issuer.clone_into(&mut self.endpoint.issuer.lock().unwrap());
    }

    /// The number of requests for the keys.
    pub(crate) fn asked(&self) -> usize {
        self.endpoint.asked.load(Ordering::SeqCst)
    }

    /// Waits for this number of requests for the keys.
    pub(crate) async fn until_requested(&self, times: usize) {
        let deadline = Instant::now() + Duration::from_mins(1);
        while self.asked() < times {
            assert!(Instant::now() < deadline, "{} requests for the keys", self.asked());
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// The token rules of a service that trusts this provider.
    pub(crate) fn rules(&self) -> IssuerConfig {
        IssuerConfig {
            issuer: self.issuer.clone(),
            audience: AUDIENCE.to_owned(),
            jwks_url: None,
            tenant_claim: "tenant".to_owned(),
            scope_claim: "scope".to_owned(),
            key_refresh: KeyRefresh::default(),
        }
    }

    /// The settings of a service that accepts tokens of this provider and API keys.
    pub(crate) fn trusted(&self) -> Setup {
        trusting(self.rules())
    }

    /// As [`Identity::trusted`], with another refresh interval of the keys.
    pub(crate) fn trusted_at(&self, key_refresh: KeyRefresh) -> Setup {
        trusting(IssuerConfig { key_refresh, ..self.rules() })
    }

    /// The claims of a valid token of the default tenant, with changes; `null` removes a claim.
    pub(crate) fn claims(&self, changes: Value) -> Value {
        let now = Timestamp::now().as_second();
        let mut claims = json!({
            "iss": self.issuer, "aud": AUDIENCE, "sub": "ann", "tenant": "default",
            "scope": "openid twostep:write", "iat": now, "exp": now + 300,
        });
        let Value::Object(changes) = changes else { panic!("claims are an object") };
        let members = claims.as_object_mut().unwrap();
        for (name, value) in changes {
            members.insert(name, value);
        }
        members.retain(|_, value| !value.is_null());
        claims
    }

    /// A token that is signed with the first key of the provider.
    pub(crate) fn token(&self, changes: Value) -> String {
        self.signer.sign("EdDSA", &self.claims(changes))
    }
}

/// The settings of a service with these token rules.
pub(crate) fn trusting(rules: IssuerConfig) -> Setup {
    // The service installs it later than the issuer needs it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Setup { tokens: Some(Arc::new(Issuer::new(rules).unwrap())), ..keys_needed() }
}

/// A client that sends this token with every request.
pub(crate) fn client_bearing(token: &str) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let token = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
    let headers = HeaderMap::from_iter([(AUTHORIZATION, token)]);
    Client::builder().no_proxy().default_headers(headers).build().unwrap()
}

/// The Unix time this many seconds from now.
pub(crate) fn seconds_from_now(seconds: i64) -> i64 {
    Timestamp::now().as_second() + seconds
}

async fn discovery(State(endpoint): State<Arc<Endpoint>>) -> Json<Value> {
    let issuer = endpoint.issuer.lock().unwrap().clone();
    let host = issuer.split('/').nth(2).unwrap();
    Json(json!({ "issuer": issuer, "jwks_uri": format!("http://{host}/keys") }))
}

async fn keys(State(endpoint): State<Arc<Endpoint>>) -> Response {
    endpoint.asked.fetch_add(1, Ordering::SeqCst);
    let response = endpoint.response.lock().unwrap().clone();
    match response {
        KeysResponse::Keys(keys) => Json(keys).into_response(),
        KeysResponse::Text(text) => text.into_response(),
        KeysResponse::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        KeysResponse::Silent => pending().await,
    }
}
