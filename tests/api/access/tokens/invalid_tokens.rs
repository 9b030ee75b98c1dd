//! Invalid tokens, and responses that do not reveal the reason.

use std::collections::BTreeMap;

use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::{get, start};
use crate::support::{
    Identity, Signer, client_with, encoded, seconds_from_now, signed_with_secret, unsigned,
};

/// The status, headers and body of a response, without the request id.
async fn comparable_response(
    request: RequestBuilder,
) -> (StatusCode, BTreeMap<String, String>, String) {
    let response = request.send().await.unwrap();
    let headers = response.headers().iter();
    let mut headers: BTreeMap<String, String> = headers
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    let request_id = headers.remove("x-request-id").unwrap();
    headers.remove("date");
    headers.remove("content-length");
    let status = response.status();
    (status, headers, response.text().await.unwrap().replace(&request_id, "its id"))
}

/// Changes of claims that make a token invalid.
fn wrong_claims() -> Vec<(&'static str, Value)> {
    vec![
        ("expired", json!({ "exp": seconds_from_now(-31) })),
        ("not valid yet", json!({ "nbf": seconds_from_now(60) })),
        ("without an expiry", json!({ "exp": null })),
        ("an expiry that is no time", json!({ "exp": "tomorrow" })),
        ("a start that is no time", json!({ "nbf": "today" })),
        ("another issuer", json!({ "iss": "http://127.0.0.1/realms/other" })),
        ("without an issuer", json!({ "iss": null })),
        ("for another audience", json!({ "aud": "others" })),
        ("for other audiences", json!({ "aud": ["others", "twostep"] })),
        ("with an empty audience", json!({ "aud": [] })),
        ("without an audience", json!({ "aud": null })),
        ("without a subject", json!({ "sub": null })),
        ("with an empty subject", json!({ "sub": "" })),
        ("without a tenant", json!({ "tenant": null })),
        ("with a number for a tenant", json!({ "tenant": 7 })),
        ("with a tenant that is no name", json!({ "tenant": "a\nb" })),
    ]
}

/// Forged and modified tokens, with a description of their defect.
fn forged(identity: &Identity, rsa: &Signer) -> Vec<(&'static str, String)> {
    let claims = identity.claims(json!({}));
    let good = identity.token(json!({}));
    let (message, signature) = good.rsplit_once('.').unwrap();
    let header = message.split('.').next().unwrap();
    let by = |id: &str, algorithm: &str| json!({ "alg": algorithm, "kid": id });
    let ed = &identity.signer;
    let modulus = rsa.jwk()["n"].as_str().unwrap().to_owned();
    let stranger = Signer::ed25519("first");
    let unknown = Signer::ed25519("unknown");
    let (ends, starts) = (seconds_from_now(9_000_000), encoded(json!({}).to_string()));
    let payload = encoded(identity.claims(json!({ "exp": ends })).to_string());
    let critical = json!({ "alg": "EdDSA", "kid": "first", "crit": ["x"], "x": 1 });
    vec![
        ("not signed", format!("{}.", unsigned(&by("first", "none"), &claims))),
        ("not signed, in capitals", format!("{}.", unsigned(&by("first", "NONE"), &claims))),
        ("without its signature", format!("{message}.")),
        ("a public key as a secret", {
            signed_with_secret(&by("rsa", "HS256"), &claims, modulus.as_bytes())
        }),
        ("a key published as a secret", {
            signed_with_secret(&by("shared", "HS256"), &claims, b"0123456789abcdef")
        }),
        (
            "an algorithm for another kind of key",
            ed.sign_under(&by("first", "ES256"), "EdDSA", &claims),
        ),
        ("an algorithm that the key is not for", rsa.sign("RS512", &claims)),
        (
            "another algorithm than its header names",
            rsa.sign_under(&by("rsa", "RS256"), "PS256", &claims),
        ),
        ("a key that is not published", unknown.sign("EdDSA", &claims)),
        ("another key with a known id", stranger.sign("EdDSA", &claims)),
        ("the id of another key", ed.sign_under(&by("other", "EdDSA"), "EdDSA", &claims)),
        ("no id of a key", ed.sign_under(&json!({ "alg": "EdDSA" }), "EdDSA", &claims)),
        ("a key in the header of the token", {
            let header = json!({ "alg": "EdDSA", "kid": "own", "jwk": unknown.jwk() });
            unknown.sign_under(&header, "EdDSA", &claims)
        }),
        ("an unknown critical header", ed.sign_under(&critical, "EdDSA", &claims)),
        ("changed claims", format!("{header}.{payload}.{signature}")),
        ("a changed signature", format!("{message}.{starts}{}", &signature[starts.len()..])),
        ("oversized", identity.token(json!({ "roles": "x".repeat(8 * 1024) }))),
        ("claims that are no object", ed.sign("EdDSA", &json!([1]))),
        ("garbage", "a.b.c".to_owned()),
        ("nothing", "..".to_owned()),
        ("two parts", message.to_owned()),
        ("five parts", format!("{good}.e30.e30")),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn all_invalid_tokens_are_refused_alike() {
    let identity = Identity::start().await;
    let (rsa, other) = (Signer::rsa("rsa"), Signer::ed25519("other"));
    let mut only_rs256 = rsa.jwk();
    only_rs256["alg"] = json!("RS256");
    let shared = json!({ "kid": "shared", "kty": "oct", "k": encoded("0123456789abcdef") });
    let keys = json!({ "keys": [identity.signer.jwk(), only_rs256, other.jwk(), shared] });
    identity.respond_with(crate::support::KeysResponse::Keys(keys));
    let app = start(identity.trusted()).await;
    // Without the changes below, the tokens are valid.
    for good in [identity.token(json!({})), rsa.sign("RS256", &identity.claims(json!({})))] {
        assert_eq!(get(&app, &good).send().await.unwrap().status(), 200);
    }
    let without_token = comparable_response(client_with(None).get(app.url("/v1/sessions"))).await;
    assert_eq!(
        (without_token.0, &*without_token.1["www-authenticate"]),
        (StatusCode::UNAUTHORIZED, "Bearer")
    );
    let unreadable = comparable_response(get(&app, "x.y.z")).await;
    assert_eq!(
        (unreadable.0, &*unreadable.1["www-authenticate"]),
        (StatusCode::UNAUTHORIZED, "Bearer error=\"invalid_token\"")
    );
    let claims = wrong_claims().into_iter().map(|(case, change)| (case, identity.token(change)));
    for (case, token) in claims.chain(forged(&identity, &rsa)) {
        assert_eq!(comparable_response(get(&app, &token)).await, unreadable, "{case}");
    }
    // One request at the start, and one for the unknown keys.
    assert_eq!(identity.asked(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_may_differ_by_30_seconds() {
    let identity = Identity::start().await;
    let app = start(identity.trusted()).await;
    for claims in [json!({ "exp": seconds_from_now(-20) }), json!({ "nbf": seconds_from_now(25) })]
    {
        let token = identity.token(claims.clone());
        assert_eq!(get(&app, &token).send().await.unwrap().status(), 200, "{claims}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_without_an_issuer_accepts_no_token() {
    let identity = Identity::start().await;
    let app = start(crate::support::keys_needed()).await;
    let token = identity.token(json!({}));
    let unreadable = comparable_response(get(&app, "x.y.z")).await;
    assert_eq!(unreadable.0, StatusCode::UNAUTHORIZED);
    assert_eq!(comparable_response(get(&app, &token)).await, unreadable);
    assert_eq!(identity.asked(), 0);
}
