//! The page that explains the API.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Response;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use twostep::http::Forwarding;

use crate::support::{Setup, TestApp, keys_needed};

/// What stands between two texts, wherever they do.
fn between<'a>(page: &'a str, before: &str, after: &str) -> Vec<&'a str> {
    page.split(before).skip(1).map(|rest| rest.split(after).next().unwrap()).collect()
}

fn names(map: &Value) -> Vec<&str> {
    map.as_object().unwrap().keys().map(String::as_str).collect()
}

async fn get(app: &TestApp, path: &str) -> Response {
    app.get_as(None, path).send().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_shown_to_everybody_and_needs_nothing_from_elsewhere() {
    let app = TestApp::start_with(json!({}), keys_needed()).await;
    let response = get(&app, "/docs").await;
    assert_eq!(response.status(), 200);
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("referrer-policy"), "no-referrer");
    let policy = header("content-security-policy");
    let page = response.text().await.unwrap();
    let [style] = between(&page, "<style>", "</style>")[..] else { panic!("not one style") };
    let hash = STANDARD.encode(Sha256::digest(style));
    let expected = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    );
    assert_eq!(policy, expected);
    for odd in ["<script", " src=", " style=", " onclick=", "url(", "@import"] {
        assert!(!page.contains(odd), "the page has {odd}");
    }
    let links: BTreeSet<&str> =
        between(&page, "href=\"", "\"").into_iter().filter(|it| !it.starts_with('#')).collect();
    assert_eq!(links, BTreeSet::from(["openapi.json"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_of_the_document_is_on_the_page_and_every_link_leads_somewhere() {
    let app = TestApp::start(json!({})).await;
    let page = get(&app, "/docs").await.text().await.unwrap();
    let document = get(&app, "/openapi.json").await.json::<Value>().await.unwrap();
    let ids = between(&page, " id=\"", "\"");
    let known: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), known.len(), "an id stands there twice");
    for link in between(&page, "href=\"#", "\"") {
        assert!(known.contains(link), "#{link} leads nowhere");
    }
    for labelled in between(&page, "aria-labelledby=\"", "\"") {
        assert!(known.contains(labelled), "{labelled} is no label");
    }
    for place in ["paths", "webhooks"] {
        for (path, methods) in document[place].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                let heading =
                    format!("<h3 id=\"{id}\">{} <code>{path}</code></h3>", method.to_uppercase());
                assert!(page.contains(&heading), "{heading} is missing");
            }
        }
    }
    let components = &document["components"];
    for schema in names(&components["schemas"]) {
        assert!(known.contains(&*format!("schema-{schema}")), "{schema} is missing");
    }
    for header in ["X-Request-Id", "traceparent", "x-request-id", "retry-after", "ratelimit"] {
        let row = format!("<th scope=\"row\"><code>{header}</code></th>");
        assert_eq!(page.matches(&row).count(), 1, "{header} is not told once");
    }
    for code in components["schemas"]["Problem"]["properties"]["code"]["enum"].as_array().unwrap() {
        let row = format!("<th scope=\"row\"><code>{}</code></th>", code.as_str().unwrap());
        assert!(page.contains(&row), "{row} is missing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_element_of_the_page_is_closed_in_its_place() {
    let app = TestApp::start(json!({})).await;
    let page = get(&app, "/docs").await.text().await.unwrap();
    let mut open: Vec<&str> = Vec::new();
    for tag in between(&page, "<", ">") {
        let name = tag.split([' ', '\n']).next().unwrap();
        match name.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed), "{open:?}"),
            None if ["!doctype", "meta", "br"].contains(&name) => {}
            None => open.push(name),
        }
    }
    assert_eq!(open, Vec::<&str>::new());
    // For readers who hear the page, and for narrow screens.
    assert!(page.contains("<html lang=\"en\">"));
    assert_eq!(between(&page, "<h1>", "</h1>").len(), 1);
    assert_eq!(between(&page, "<main", ">").len(), 1);
    assert_eq!(page.matches("<table>").count(), page.matches("<thead><tr><th scope=").count());
}

#[tokio::test(flavor = "multi_thread")]
async fn beneath_a_path_the_page_leads_to_the_document_beneath_it() {
    let forwarding = Forwarding { base: Some("/agent".parse().unwrap()), ..Forwarding::default() };
    let app = TestApp::start_with(json!({}), Setup { forwarding, ..Setup::default() }).await;
    for base in ["", "/agent"] {
        let response = get(&app, &format!("{base}/docs")).await;
        let url = response.url().clone();
        let page = response.text().await.unwrap();
        let link = between(&page, "href=\"", "\"").into_iter().find(|it| !it.starts_with('#'));
        let linked = url.join(link.unwrap()).unwrap();
        assert_eq!(linked.path(), format!("{base}/openapi.json"));
        assert_eq!(get(&app, linked.path()).await.status(), 200);
    }
}
