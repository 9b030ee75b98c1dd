//! So many requests a minute, and not one more.

use reqwest::Response;
use serde_json::json;
use twostep::domain::api_key::Scope;
use twostep::domain::ids::TenantId;

use crate::support::{Setup, TestApp, client_with, keys_needed, problem};

fn limited(rate_limit: u32) -> Setup {
    Setup { rate_limit, ..keys_needed() }
}

/// What an answer tells of the limit, and the seconds until there is room for another request.
fn told(response: &Response) -> (String, String, u64) {
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    let (left, seconds) = header("ratelimit")
        .rsplit_once(";t=")
        .map(|(left, seconds)| (left.to_owned(), seconds.parse().unwrap()))
        .unwrap();
    (header("ratelimit-policy"), left, seconds)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_asks_too_often_is_told_when_to_come_back() {
    let app = TestApp::start_with(json!({}), limited(3)).await;
    let policy = r#""key";q=3;w=60"#.to_owned();
    for left in [r#""key";r=2"#, r#""key";r=1"#, r#""key";r=0"#] {
        let answer = app.get("/v1/sessions").send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let (said, rest, seconds) = told(&answer);
        assert_eq!((said, rest), (policy.clone(), left.to_owned()));
        assert!((1..=20).contains(&seconds), "{seconds}");
    }
    // Whatever it asks for.
    for path in ["/v1/sessions", "/tools"] {
        let refused = app.get(path).send().await.unwrap();
        let (said, rest, seconds) = told(&refused);
        assert_eq!((said, rest), (policy.clone(), r#""key";r=0"#.to_owned()));
        assert!((1..=20).contains(&seconds), "{seconds}");
        assert_eq!(refused.headers()["retry-after"], seconds.to_string());
        assert_eq!(refused.headers()["x-should-retry"], "true");
        problem(refused, 429, "rate_limited").await;
    }
    // Who looks after the service is not counted, and neither is who has another key.
    for _ in 0..5 {
        assert_eq!(app.get("/healthz").send().await.unwrap().status(), 200);
    }
    let other = client_with(Some(&app.database.key(TenantId::DEFAULT, Scope::Read).await));
    let other = other.get(app.url("/v1/sessions")).send().await.unwrap();
    assert_eq!((other.status().as_u16(), told(&other).1), (200, r#""key";r=2"#.to_owned()));
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_key_uses_up_nothing_of_anybody() {
    let app = TestApp::start_with(json!({}), limited(1)).await;
    for _ in 0..3 {
        let refused = app.get_as(None, "/v1/sessions").send().await.unwrap();
        assert_eq!(refused.headers().get("ratelimit"), None);
        problem(refused, 401, "unauthenticated").await;
    }
    assert_eq!(app.get("/v1/sessions").send().await.unwrap().status(), 200);
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_all_share_one_limit() {
    let setup = Setup { rate_limit: 1, ..Setup::default() };
    let app = TestApp::start_with(json!({}), setup).await;
    assert_eq!(app.get("/v1/sessions").send().await.unwrap().status(), 200);
    let refused = app.get_as(Some("whoever"), "/v1/models").send().await.unwrap();
    problem(refused, 429, "rate_limited").await;
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_limited_unless_the_operator_says_so() {
    let app = TestApp::start(json!({})).await;
    let answer = app.get("/v1/sessions").send().await.unwrap();
    assert_eq!(answer.headers().get("ratelimit"), None);
    assert_eq!(answer.headers().get("ratelimit-policy"), None);
}
