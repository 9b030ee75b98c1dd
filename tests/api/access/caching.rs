//! Caches between the service and its callers: no response of one caller is stored for another.

use reqwest::{RequestBuilder, Response};
use serde_json::json;
use twostep::domain::api_key::{ApiKey, Scope};
use twostep::domain::ids::TenantId;

use super::every_route::{Ids, routes, start, waiting_run};
use crate::support::{Setup, TestApp, client_with, keys_needed};

/// The values of a header, as one list.
fn list(response: &Response, name: &str) -> Vec<String> {
    let values = response.headers().get_all(name).iter();
    let values = values.flat_map(|value| value.to_str().unwrap().split(','));
    values.map(|word| word.trim().to_ascii_lowercase()).collect()
}

/// Sends a request, checks the caching headers of its response, and returns the status.
async fn private_status(request: RequestBuilder) -> u16 {
    let response = request.send().await.unwrap();
    let (caching, vary) = (list(&response, "cache-control"), list(&response, "vary"));
    let expected: &[&str] = if caching.contains(&"no-transform".to_owned()) {
        &["private", "no-cache", "no-store", "no-transform"]
    } else if response.headers().contains_key("etag") {
        &["private", "no-cache"]
    } else {
        &["private", "no-store"]
    };
    assert_eq!(caching, expected, "{response:?}");
    for name in ["authorization", "x-api-key"] {
        assert!(vary.contains(&name.to_owned()), "vary lacks {name}: {response:?}");
    }
    // The body is not read: a stream has no end.
    response.status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_cache_may_serve_the_response_of_any_route_to_another_caller() {
    let app = start(keys_needed()).await;
    let session = app.session().await;
    let ids = waiting_run(&session).await;
    let reader = client_with(Some(&app.database.key(TenantId::DEFAULT, Scope::Read).await));
    let unknown = ApiKey::generate().unwrap();
    let mut seen = Vec::new();
    let (last, first): (Vec<_>, Vec<_>) =
        routes().into_iter().partition(|route| route.name.starts_with("delete_"));
    for route in first.iter().chain(&last).filter(|route| !route.is_open) {
        for client in [client_with(None), client_with(Some(&unknown)), reader.clone()] {
            seen.push(private_status(route.request(&client, &app, &ids)).await);
        }
        seen.push(private_status(route.request(&app.client, &app, &Ids::unknown())).await);
        seen.push(private_status(route.request(&app.client, &app, &ids)).await);
    }
    for status in [200, 201, 204, 401, 403, 404] {
        assert!(seen.contains(&status), "no request got {status}: {seen:?}");
    }
    for path in ["/v1/elsewhere", "/elsewhere", "/healthz", "/readyz"] {
        private_status(app.get(path)).await;
    }
    assert_eq!(private_status(app.client.put(app.url("/v1/sessions"))).await, 405);
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_of_a_service_without_keys_are_private_too() {
    let app = TestApp::start(json!({})).await;
    let session = app.session().await;
    let read = || app.get(&session.path(""));
    assert_eq!(private_status(read()).await, 200);
    let version = read().send().await.unwrap().headers()["etag"].clone();
    assert_eq!(private_status(read().header("if-none-match", version)).await, 304);
    assert_eq!(private_status(app.get(&session.path("/export"))).await, 200);
    let stream = || app.get(&session.path("/events/stream"));
    assert_eq!(private_status(stream()).await, 200);
    let streamed = list(&stream().send().await.unwrap(), "cache-control");
    assert!(streamed.contains(&"no-transform".to_owned()), "{streamed:?}");
    let foreign = read().header("origin", "https://evil.example");
    assert_eq!(private_status(foreign).await, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_and_responses_to_pages_are_private_and_vary_by_origin_too() {
    let setup = Setup { rate_limit: 1, cors_origins: vec!["https://app.example"], ..keys_needed() };
    let app = TestApp::start_with(json!({}), setup).await;
    let list_sessions = || app.get("/v1/sessions").header("origin", "https://app.example");
    let first = list_sessions().send().await.unwrap();
    assert!(list(&first, "vary").contains(&"origin".to_owned()), "{first:?}");
    assert_eq!(private_status(list_sessions()).await, 429);
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_that_are_the_same_for_all_callers_may_be_cached() {
    let app = TestApp::start_with(json!({}), keys_needed()).await;
    for path in ["/openapi.json", "/docs"] {
        let response = app.get_as(None, path).send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(!list(&response, "cache-control").contains(&"private".to_owned()), "{response:?}");
    }
    app.stop().await;
}
