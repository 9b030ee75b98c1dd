//! Limits of requests per minute.

use reqwest::Response;
use serde_json::json;
use twostep::domain::api_key::Scope;
use twostep::domain::ids::TenantId;

use crate::support::{Setup, TestApp, client_with, keys_needed, problem};

fn limited(rate_limit: u32) -> Setup {
    Setup { rate_limit, ..keys_needed() }
}

/// The policy and the remaining quota in the headers of a response, and the seconds until another
/// request is allowed.
fn limit_of(response: &Response) -> (String, String, u64) {
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    let (left, seconds) = header("ratelimit")
        .rsplit_once(";t=")
        .map(|(left, seconds)| (left.to_owned(), seconds.parse().unwrap()))
        .unwrap();
    (header("ratelimit-policy"), left, seconds)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_exceeds_its_limit_is_refused_with_the_time_to_wait() {
    let app = TestApp::start_with(json!({}), limited(3)).await;
    let policy = r#""key";q=3;w=60"#.to_owned();
    for left in [r#""key";r=2"#, r#""key";r=1"#, r#""key";r=0"#] {
        let response = app.get("/v1/sessions").send().await.unwrap();
        assert_eq!(response.status(), 200);
        let (shown_policy, rest, seconds) = limit_of(&response);
        assert_eq!((shown_policy, rest), (policy.clone(), left.to_owned()));
        assert!((1..=20).contains(&seconds), "{seconds}");
    }
    // On every route.
    for path in ["/v1/sessions", "/tools"] {
        let refused = app.get(path).send().await.unwrap();
        let (shown_policy, rest, seconds) = limit_of(&refused);
        assert_eq!((shown_policy, rest), (policy.clone(), r#""key";r=0"#.to_owned()));
        assert!((1..=20).contains(&seconds), "{seconds}");
        assert_eq!(refused.headers()["retry-after"], seconds.to_string());
        assert_eq!(refused.headers()["x-should-retry"], "true");
        problem(refused, 429, "rate_limited").await;
    }
    // Health checks are not counted, and another key has its own limit.
    for _ in 0..5 {
        assert_eq!(app.get("/healthz").send().await.unwrap().status(), 200);
    }
    let other = client_with(Some(&app.database.key(TenantId::DEFAULT, Scope::Read).await));
    let other = other.get(app.url("/v1/sessions")).send().await.unwrap();
    assert_eq!((other.status().as_u16(), limit_of(&other).1), (200, r#""key";r=2"#.to_owned()));
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_an_unknown_key_is_not_counted() {
    let app = TestApp::start_with(json!({}), limited(1)).await;
    for _ in 0..3 {
        let refused = app.get_as(None, "/v1/sessions").send().await.unwrap();
        assert_eq!(refused.headers().get("ratelimit"), None);
        problem(refused, 401, "unauthenticated").await;
    }
    assert_eq!(app.get("/v1/sessions").send().await.unwrap().status(), 200);
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_all_callers_share_one_limit() {
    let setup = Setup { rate_limit: 1, ..Setup::default() };
    let app = TestApp::start_with(json!({}), setup).await;
    assert_eq!(app.get("/v1/sessions").send().await.unwrap().status(), 200);
    let refused = app.get_as(Some("any"), "/v1/models").send().await.unwrap();
    problem(refused, 429, "rate_limited").await;
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_not_limited_by_default() {
    let app = TestApp::start(json!({})).await;
    let response = app.get("/v1/sessions").send().await.unwrap();
    assert_eq!(response.headers().get("ratelimit"), None);
    assert_eq!(response.headers().get("ratelimit-policy"), None);
}
