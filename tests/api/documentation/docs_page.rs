//! The API reference as a web page.

use std::collections::BTreeSet;

use reqwest::{Response, Url};
use serde_json::{Value, json};
use twostep::http::Forwarding;

use crate::support::{Setup, TestApp, keys_needed};

/// All texts between `before` and `after`.
fn between<'a>(page: &'a str, before: &str, after: &str) -> Vec<&'a str> {
    page.split(before).skip(1).map(|rest| rest.split(after).next().unwrap()).collect()
}

async fn get(app: &TestApp, path: &str) -> Response {
    app.get_as(None, path).send().await.unwrap()
}

/// The URLs that the page loads: its scripts and the OpenAPI document.
fn resources(page: &str) -> Vec<&str> {
    [between(page, " src=\"", "\""), between(page, " spec-url=\"", "\"")].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_needs_no_key_and_no_other_host() {
    let app = TestApp::start_with(json!({}), keys_needed()).await;
    let response = get(&app, "/docs").await;
    assert_eq!(response.status(), 200);
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("referrer-policy"), "no-referrer");
    let policy = header("content-security-policy");
    for directive in policy.split("; ") {
        let (name, sources) = directive.split_once(' ').unwrap();
        let is_local = |source: &str| {
            ["'none'", "'self'"].contains(&source)
                || (name == "style-src" && source.starts_with("'sha256-"))
                || (name == "img-src" && source == "data:")
                || (name == "worker-src" && source == "blob:")
        };
        assert!(sources.split(' ').all(is_local), "{directive}");
    }
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; "), "{policy}");
    let page = response.text().await.unwrap();
    for address in ["http://", "https://", "//", "url(", "@import", " style=", " onclick="] {
        assert!(!page.contains(address), "the page has {address}");
    }
    assert_eq!(page.matches("<script").count(), page.matches("<script src=").count());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_loads_its_script_and_the_document_of_this_service() {
    let app = TestApp::start_with(json!({}), keys_needed()).await;
    let page = get(&app, "/docs").await.text().await.unwrap();
    let [script, document] = resources(&page)[..] else { panic!("{page}") };
    let script = get(&app, &format!("/{script}")).await;
    assert_eq!(script.status(), 200);
    let header = |name: &str| script.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/javascript; charset=utf-8");
    assert_eq!(header("content-encoding"), "gzip");
    assert_eq!(header("cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(script.bytes().await.unwrap()[..2], [0x1f, 0x8b]);
    let document = get(&app, &format!("/{document}")).await.json::<Value>().await.unwrap();
    assert!(document["paths"]["/v1/sessions"].is_object());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_element_of_the_page_is_closed_in_the_right_order() {
    let app = TestApp::start(json!({})).await;
    let page = get(&app, "/docs").await.text().await.unwrap();
    let mut open: Vec<&str> = Vec::new();
    for tag in between(&page, "<", ">") {
        let name = tag.split([' ', '\n']).next().unwrap();
        match name.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed), "{open:?}"),
            None if ["!doctype", "meta", "link", "br"].contains(&name) => {}
            None => open.push(name),
        }
    }
    assert_eq!(open, Vec::<&str>::new());
    assert!(page.contains("<html lang=\"en\">"));
}

/// A service with the base path `/agent`, which also serves paths without it.
async fn app_with_base_path() -> TestApp {
    let forwarding = Forwarding { base: Some("/agent".parse().unwrap()), ..Forwarding::default() };
    TestApp::start_with(json!({}), Setup { forwarding, ..Setup::default() }).await
}

/// The URL and the text of the page under a base path.
async fn page_at(app: &TestApp, base: &str) -> (Url, String) {
    let response = get(app, &format!("{base}/docs")).await;
    (response.url().clone(), response.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_loads_its_resources_under_the_base_path() {
    let app = app_with_base_path().await;
    for base in ["", "/agent"] {
        let (url, page) = page_at(&app, base).await;
        for resource in resources(&page) {
            let linked = url.join(resource).unwrap();
            assert!(linked.path().starts_with(&format!("{base}/")), "{linked}");
            assert_eq!(get(&app, linked.path()).await.status(), 200, "{linked}");
        }
    }
}

/// The operations of an OpenAPI document: methods, paths and ids.
fn operations(document: &Value) -> BTreeSet<[&str; 3]> {
    let mut found: BTreeSet<[&str; 3]> = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            found.insert([method, path, operation["operationId"].as_str().unwrap()]);
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_every_operation_of_the_committed_document() {
    let committed: Value =
        serde_json::from_str(include_str!("../../../openapi/openapi.json")).unwrap();
    let app = app_with_base_path().await;
    for base in ["", "/agent"] {
        let (url, page) = page_at(&app, base).await;
        let [document] = between(&page, "<redoc spec-url=\"", "\"")[..] else { panic!("{page}") };
        let document = url.join(document).unwrap();
        assert_eq!(document.path(), format!("{base}/openapi.json"));
        let document: Value = get(&app, document.path()).await.json().await.unwrap();
        assert!(operations(&document).len() > 40, "{document}");
        assert_eq!(operations(&document), operations(&committed));
        // With groups of tags, Redoc leaves out the operations of other tags.
        assert_eq!(document["x-tagGroups"], Value::Null);
    }
}
