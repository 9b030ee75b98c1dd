//! Tokens that are not good, and answers that do not say why.

use std::collections::BTreeMap;

use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::{get, start};
use crate::support::{
    Identity, Signer, client_with, encoded, seconds_from_now, signed_with_secret, unsigned,
};

/// All that an answer tells, without what each request has of its own.
async fn told(request: RequestBuilder) -> (StatusCode, BTreeMap<String, String>, String) {
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

/// Claims of a good token, but for one.
fn wrong_claims() -> Vec<(&'static str, Value)> {
    vec![
        ("expired", json!({ "exp": seconds_from_now(-31) })),
        ("not good yet", json!({ "nbf": seconds_from_now(60) })),
        ("without an end", json!({ "exp": null })),
        ("an end that is no time", json!({ "exp": "tomorrow" })),
        ("a beginning that is no time", json!({ "nbf": "today" })),
        ("another issuer", json!({ "iss": "http://127.0.0.1/realms/other" })),
        ("without an issuer", json!({ "iss": null })),
        ("for another audience", json!({ "aud": "others" })),
        ("for other audiences", json!({ "aud": ["others", "twostep"] })),
        ("for nobody", json!({ "aud": [] })),
        ("without an audience", json!({ "aud": null })),
        ("about nobody", json!({ "sub": null })),
        ("about an empty name", json!({ "sub": "" })),
        ("without a tenant", json!({ "tenant": null })),
        ("with a number for a tenant", json!({ "tenant": 7 })),
        ("with a tenant that is no name", json!({ "tenant": "a\nb" })),
    ]
}

/// Tokens that somebody has made up or changed, by what is wrong with them.
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
        ("another algorithm than it says", rsa.sign_under(&by("rsa", "RS256"), "PS256", &claims)),
        ("a key that nobody published", unknown.sign("EdDSA", &claims)),
        ("another key under a known name", stranger.sign("EdDSA", &claims)),
        ("the name of another key", ed.sign_under(&by("other", "EdDSA"), "EdDSA", &claims)),
        ("no name of a key", ed.sign_under(&json!({ "alg": "EdDSA" }), "EdDSA", &claims)),
        ("a key that it brings itself", {
            let header = json!({ "alg": "EdDSA", "kid": "own", "jwk": unknown.jwk() });
            unknown.sign_under(&header, "EdDSA", &claims)
        }),
        ("something critical", ed.sign_under(&critical, "EdDSA", &claims)),
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
async fn all_bad_tokens_are_refused_as_no_token_is() {
    let identity = Identity::start().await;
    let (rsa, other) = (Signer::rsa("rsa"), Signer::ed25519("other"));
    let mut only_rs256 = rsa.jwk();
    only_rs256["alg"] = json!("RS256");
    let shared = json!({ "kid": "shared", "kty": "oct", "k": encoded("0123456789abcdef") });
    let keys = json!({ "keys": [identity.signer.jwk(), only_rs256, other.jwk(), shared] });
    identity.respond_with(crate::support::KeysResponse::Keys(keys));
    let app = start(identity.trusted()).await;
    // What is changed below is good before.
    for good in [identity.token(json!({})), rsa.sign("RS256", &identity.claims(json!({})))] {
        assert_eq!(get(&app, &good).send().await.unwrap().status(), 200);
    }
    let nobody = told(client_with(None).get(app.url("/v1/sessions"))).await;
    assert_eq!((nobody.0, &*nobody.1["www-authenticate"]), (StatusCode::UNAUTHORIZED, "Bearer"));
    let claims = wrong_claims().into_iter().map(|(what, change)| (what, identity.token(change)));
    for (what, token) in claims.chain(forged(&identity, &rsa)) {
        assert_eq!(told(get(&app, &token)).await, nobody, "{what}");
    }
    // One look at the start, and one because of keys that are not known.
    assert_eq!(identity.asked(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_may_differ_by_half_a_minute() {
    let identity = Identity::start().await;
    let app = start(identity.trusted()).await;
    for claims in [json!({ "exp": seconds_from_now(-20) }), json!({ "nbf": seconds_from_now(25) })]
    {
        let token = identity.token(claims.clone());
        assert_eq!(get(&app, &token).send().await.unwrap().status(), 200, "{claims}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_without_an_issuer_takes_no_token() {
    let identity = Identity::start().await;
    let app = start(crate::support::keys_needed()).await;
    let token = identity.token(json!({}));
    let nobody = told(client_with(None).get(app.url("/v1/sessions"))).await;
    assert_eq!(told(get(&app, &token)).await, nobody);
    assert_eq!(identity.asked(), 0);
}
