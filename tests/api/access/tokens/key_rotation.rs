//! Changes of the provider's keys, and an unavailable provider.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use tokio::time::sleep;
use twostep::tokens::KeyRefresh;

use super::{get, start, status};
use crate::support::{Identity, KeysResponse, Signer, TestApp};

/// Short intervals between refreshes.
const QUICK: KeyRefresh = KeyRefresh {
    interval: Duration::from_millis(100),
    min_interval: Duration::from_millis(100),
    max_age: Duration::from_mins(1),
};

/// Waits until requests with this token get this status.
async fn until(app: &TestApp, token: &str, expected: u16) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while status(get(app, token)).await != expected {
        assert!(Instant::now() < deadline, "the status does not become {expected}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_is_accepted_at_once() {
    let identity = Identity::start().await;
    let app = start(identity.trusted()).await;
    let old = identity.token(json!({}));
    assert_eq!(status(get(&app, &old)).await, 200);
    let next = Signer::p256("next");
    identity.publish(&[&identity.signer, &next]);
    let new = next.sign("ES256", &identity.claims(json!({})));
    assert_eq!((status(get(&app, &new)).await, status(get(&app, &old)).await), (200, 200));
    assert_eq!(identity.asked(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_the_provider_removes_is_refused_after_the_next_refresh() {
    let identity = Identity::start().await;
    let app = start(identity.trusted_at(QUICK)).await;
    let old = identity.token(json!({}));
    assert_eq!(status(get(&app, &old)).await, 200);
    let next = Signer::ed25519("next");
    identity.publish(&[&next]);
    until(&app, &old, 401).await;
    assert_eq!(status(get(&app, &next.sign("EdDSA", &identity.claims(json!({}))))).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_unknown_keys_causes_one_request_to_the_provider() {
    let identity = Identity::start().await;
    let app = start(identity.trusted()).await;
    let good = identity.token(json!({}));
    assert_eq!(status(get(&app, &good)).await, 200);
    for _ in 0..2 {
        let flood = join_all((0..100).map(async |number| {
            let stranger = Signer::ed25519(&format!("stranger {number}"));
            status(get(&app, &stranger.sign("EdDSA", &identity.claims(json!({}))))).await
        }));
        let asked = Instant::now();
        let (statuses, good) = tokio::join!(flood, status(get(&app, &good)));
        assert_eq!((statuses, good), (vec![401; 100], 200));
        // A token that waits for a refresh takes 2 s: one after the other, they would take 200 s.
        assert!(asked.elapsed() < Duration::from_secs(100), "it took {:?}", asked.elapsed());
        assert_eq!(identity.asked(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_provider_does_not_respond_its_keys_stay_valid_and_others_are_refused_in_time() {
    let identity = Identity::start().await;
    let app = start(identity.trusted()).await;
    let good = identity.token(json!({}));
    assert_eq!(status(get(&app, &good)).await, 200);
    identity.respond_with(KeysResponse::Silent);
    let unknown = Signer::ed25519("unknown").sign("EdDSA", &identity.claims(json!({})));
    let asked = Instant::now();
    assert_eq!(status(get(&app, &unknown)).await, 401);
    let waited = asked.elapsed();
    // The request to the provider fails after 5 s. The token waits for 2 s.
    assert!(waited < Duration::from_secs(5), "it took {waited:?}");
    assert_eq!(identity.asked(), 2);
    assert_eq!(status(get(&app, &good)).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_key_set_changes_nothing() {
    let identity = Identity::start().await;
    let app = start(identity.trusted_at(QUICK)).await;
    let good = identity.token(json!({}));
    assert_eq!(status(get(&app, &good)).await, 200);
    let many = json!({ "keys": vec![Signer::ed25519("next").jwk(); 101] });
    // White space after an empty set, which would remove the valid key.
    let large = format!("{}{}", json!({ "keys": [] }), " ".repeat(512 * 1024));
    for response in [
        KeysResponse::Status(503),
        KeysResponse::Status(302),
        KeysResponse::Text("<html>".to_owned()),
        KeysResponse::Text(large),
        KeysResponse::Keys(json!([])),
        KeysResponse::Keys(many),
    ] {
        identity.respond_with(response.clone());
        // A request may be in progress that gets the previous response.
        identity.until_requested(identity.asked() + 3).await;
        assert_eq!(status(get(&app, &good)).await, 200, "{response:.80?}");
    }
    identity.respond_with(KeysResponse::Keys(json!({ "keys": [] })));
    until(&app, &good, 401).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_expire_when_the_provider_does_not_confirm_them() {
    let identity = Identity::start().await;
    let kept_for = Duration::from_secs(2);
    let app = start(identity.trusted_at(KeyRefresh { max_age: kept_for, ..QUICK })).await;
    let good = identity.token(json!({}));
    until(&app, &good, 200).await;
    // The key is accepted for longer than that, because each refresh confirms it.
    sleep(kept_for + Duration::from_millis(500)).await;
    assert_eq!(status(get(&app, &good)).await, 200);
    identity.respond_with(KeysResponse::Status(500));
    until(&app, &good, 401).await;
    identity.publish(&[&identity.signer]);
    until(&app, &good, 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_starts_without_the_provider_and_connects_to_it_later() {
    let identity = Identity::start().await;
    identity.respond_with(KeysResponse::Status(503));
    let app = start(identity.trusted_at(QUICK)).await;
    let good = identity.token(json!({}));
    identity.until_requested(1).await;
    assert_eq!(status(get(&app, &good)).await, 401);
    assert_eq!(status(app.get("/v1/sessions")).await, 200);
    identity.publish(&[&identity.signer]);
    until(&app, &good, 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discovery_document_of_another_issuer_is_refused() {
    let identity = Identity::start().await;
    let realm = identity.issuer.clone();
    identity.set_issuer(&realm.replace("realms/test", "realms/other"));
    let app = start(identity.trusted_at(QUICK)).await;
    let good = identity.token(json!({}));
    assert_eq!(status(get(&app, &good)).await, 401);
    assert_eq!(identity.asked(), 0);
    identity.set_issuer(&realm);
    until(&app, &good, 200).await;
}
