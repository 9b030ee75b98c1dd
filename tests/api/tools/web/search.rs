//! `web_search` and `WebSearch`, with stubs of the search services.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::Query;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Json;
use axum::routing::get;
use reqwest::Url;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use twostep::tools::builtin::{Options, Search, SearchProvider};

use super::{results, round_of_calls};
use crate::support::{Setup, TestApp, replies, says};

const KEY: &str = "planted-search-key";

type JsonResponse = (StatusCode, Json<Value>);

/// Eight pages of four hosts, the best match first.
fn pages(query: &str) -> Vec<(String, String)> {
    let hosts = ["docs.rs", "example.com", "old.example.com", "evil.test"];
    let page = |n: usize| (format!("{query} {n}"), format!("https://{}/{n}", hosts[n % 4]));
    (0..8).map(page).collect()
}

async fn searxng(Query(query): Query<HashMap<String, String>>) -> JsonResponse {
    if query.get("format").is_none_or(|format| format != "json") {
        return (StatusCode::FORBIDDEN, Json(Value::Null));
    }
    if query["q"] == "broken" {
        return (StatusCode::OK, Json(json!({ "answers": [] })));
    }
    let result = |(title, url): (String, String)| {
        json!({ "url": url, "title": title, "content": "a < b\n and  more", "engine": "x",
                "score": 1.0, "category": "general", "parsed_url": ["https"] })
    };
    let results: Vec<Value> = pages(&query["q"]).into_iter().map(result).collect();
    (StatusCode::OK, Json(json!({ "query": query["q"], "results": results, "answers": [] })))
}

async fn brave(headers: HeaderMap, Query(query): Query<HashMap<String, String>>) -> JsonResponse {
    if headers.get("x-subscription-token").is_none_or(|key| key != KEY) {
        let code = "SUBSCRIPTION_TOKEN_INVALID";
        return (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({ "error": { "code": code } })));
    }
    if query["q"] == "nothing" {
        return (StatusCode::OK, Json(json!({ "type": "search", "mixed": {} })));
    }
    let result = |(title, url): (String, String)| {
        json!({ "type": "search_result", "title": title, "url": url,
                "description": "the <strong>words</strong> &amp; more", "age": "1 day ago" })
    };
    let count: usize = query["count"].parse().unwrap();
    let results: Vec<Value> = pages(&query["q"]).into_iter().take(count).map(result).collect();
    (StatusCode::OK, Json(json!({ "type": "search", "web": { "results": results } })))
}

async fn start_stub() -> (Url, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/base/", listener.local_addr().unwrap()).parse().unwrap();
    let router = Router::new()
        .route("/base/search", get(searxng))
        .route("/base/res/v1/web/search", get(brave));
    let serving = async { axum::serve(listener, router).await.unwrap() };
    (url, AbortOnDropHandle::new(TaskTracker::new().spawn(serving)))
}

async fn search(provider: SearchProvider, searches: &[(&str, Value)]) -> Vec<(bool, String)> {
    search_with_sources(provider, searches).await.0
}

/// The results of the searches, and the sources of the run.
async fn search_with_sources(
    provider: SearchProvider,
    searches: &[(&str, Value)],
) -> (Vec<(bool, String)>, Value) {
    // Fails when another test of this process has installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let search = Some(Arc::new(Search::new(provider).unwrap()));
    let options = Options { search, ..Options::default() };
    let script = replies(&[round_of_calls(searches), says("Found.")]);
    let app = TestApp::start_with(script, Setup { options, ..Setup::default() }).await;
    let session = app.session().await;
    let run = session.ask("Search").await;
    assert_eq!(run["output_text"], "Found.");
    (results(&session).await, run["sources"].clone())
}

fn found(query: &str, snippet: &str, numbers: &[usize]) -> (bool, String) {
    let pages = pages(query);
    let result = |n: &usize| {
        let (title, url) = &pages[*n];
        json!({ "title": title, "url": url, "snippet": snippet })
    };
    let results: Vec<Value> = numbers.iter().map(result).collect();
    (false, json!({ "results": results }).to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_in_order_and_web_search_returns_five_unless_more_are_requested() {
    let (url, _serving) = start_stub().await;
    let searches = [
        ("web_search", json!({ "query": "bread" })),
        ("web_search", json!({ "query": "bread", "max_results": 7 })),
        ("WebSearch", json!({ "query": "  bread\n" })),
    ];
    let snippet = "a < b and more";
    assert_eq!(
        search(SearchProvider::Searxng(url), &searches).await,
        [
            found("bread", snippet, &[0, 1, 2, 3, 4]),
            found("bread", snippet, &[0, 1, 2, 3, 4, 5, 6]),
            found("bread", snippet, &[0, 1, 2, 3, 4, 5, 6, 7]),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_results_of_searches_are_sources_of_the_run() {
    let (url, _serving) = start_stub().await;
    let searches = [
        ("web_search", json!({ "query": "bread", "max_results": 2 })),
        ("WebSearch", json!({ "query": "bread", "allowed_domains": ["docs.rs"] })),
        ("web_search", json!({ "query": " " })),
    ];
    let source = |query: &str, n: usize| {
        let (title, url) = &pages(query)[n];
        json!({ "title": title, "url": url })
    };
    let narrowed = "bread site:docs.rs";
    let expected =
        [source("bread", 0), source("bread", 1), source(narrowed, 0), source(narrowed, 4)];
    let (_, sources) = search_with_sources(SearchProvider::Searxng(url), &searches).await;
    assert_eq!(sources, json!(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_and_blocked_domains_include_their_subdomains() {
    let (url, _serving) = start_stub().await;
    let searches = [
        (
            "WebSearch",
            json!({ "query": "a", "allowed_domains": ["example.com", "docs.rs"],
                              "blocked_domains": ["old.example.com"] }),
        ),
        ("WebSearch", json!({ "query": "a", "blocked_domains": ["example.com"] })),
        ("WebSearch", json!({ "query": "a", "allowed_domains": ["https://docs.rs"] })),
    ];
    let refused =
        r#"<tool_use_error>"https://docs.rs" is not a domain such as docs.rs</tool_use_error>"#;
    let narrowed = "a site:example.com OR site:docs.rs -site:old.example.com";
    assert_eq!(
        search(SearchProvider::Searxng(url), &searches).await,
        [
            found(narrowed, "a < b and more", &[0, 1, 4, 5]),
            found("a -site:example.com", "a < b and more", &[0, 3, 4, 7]),
            (true, refused.to_owned()),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_to_brave_have_its_key_and_results_have_no_html_tags() {
    let (url, _serving) = start_stub().await;
    let searches = [
        ("web_search", json!({ "query": "bread", "max_results": 2 })),
        ("web_search", json!({ "query": "nothing" })),
    ];
    let provider = |key: &str| SearchProvider::Brave(url.clone(), key.to_owned().into());
    assert_eq!(
        search(provider(KEY), &searches).await,
        [found("bread", "the words & more", &[0, 1]), (false, r#"{"results":[]}"#.to_owned())]
    );
    assert_eq!(
        search(provider("another"), &searches[..1]).await,
        [(true, "Error: web_search: the search service answered with status 422".to_owned())]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_that_fails_is_an_error_result_with_the_reason() {
    let (url, serving) = start_stub().await;
    let searches = [
        ("WebSearch", json!({ "query": "broken" })),
        ("web_search", json!({ "query": " " })),
        ("web_search", json!({ "query": "x".repeat(401) })),
    ];
    let failure = |text: &str| {
        (true, format!("<tool_use_error>Error calling tool (WebSearch): {text}</tool_use_error>"))
    };
    let query = "Error: web_search: the query must have 1 to 400 bytes, including its domains";
    assert_eq!(
        search(SearchProvider::Searxng(url.clone()), &searches).await,
        [
            failure("the response of the search service cannot be parsed"),
            (true, query.to_owned()),
            (true, query.to_owned()),
        ]
    );
    drop(serving);
    assert_eq!(
        search(SearchProvider::Searxng(url), &[("WebSearch", json!({ "query": "bread" }))]).await,
        [failure("fetch failed")]
    );
}
