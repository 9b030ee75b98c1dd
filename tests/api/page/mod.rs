//! The page at `/app/`, as a browser and a proxy request it. `scripts/page` tests it in a browser.

use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use serde_json::json;
use twostep::http::Forwarding;

use crate::proxies::processes::{ProxyKind, RunningProxy};
use crate::support::{Setup, TestApp, binary, keys_needed, outcome, problem};

/// A client that neither follows redirects nor changes headers.
fn client() -> Client {
    Client::builder().no_proxy().redirect(Policy::none()).build().unwrap()
}

async fn get(url: &str, encoding: &str) -> Response {
    client().get(url).header("accept-encoding", encoding).send().await.unwrap()
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

/// The paths that a document loads, relative to it.
fn linked(document: &str) -> Vec<String> {
    let attributes = [" src=\"", " href=\""].into_iter();
    let found = attributes.flat_map(|name| document.split(name).skip(1));
    found.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_needs_no_key_and_loads_only_from_this_service() {
    let app = TestApp::start_with(json!({}), keys_needed()).await;
    let response = get(&app.url("/app/"), "identity").await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(header(&response, "content-type"), "text/html; charset=utf-8");
    assert_eq!(header(&response, "x-content-type-options"), "nosniff");
    assert_eq!(header(&response, "referrer-policy"), "no-referrer");
    let policy = header(&response, "content-security-policy").to_owned();
    for directive in ["default-src 'none'", "script-src 'self'", "style-src 'self'"] {
        assert!(policy.contains(&format!("{directive};")), "{policy}");
    }
    for source in ["unsafe", "http:", "https:", "*", "sha256-", "nonce-"] {
        assert!(!policy.contains(source), "{policy}");
    }
    let document = response.text().await.unwrap();
    assert_eq!(document.matches("<script").count(), document.matches(" src=\"").count());
    for inline in ["<style", " style=", " onclick=", " onload=", "<base"] {
        assert!(!document.contains(inline), "{inline}");
    }
    let paths = linked(&document);
    assert!(paths.len() >= 3, "a script, a style and an icon: {paths:?}");
    for path in paths {
        assert!(path.starts_with("./assets/"), "{path}");
        let file = get(&app.url(&format!("/app/{path}")), "identity").await;
        assert_eq!(file.status(), StatusCode::OK, "{path}");
    }
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_with_a_hash_in_their_name_are_cached_for_ever_and_the_document_is_checked() {
    let app = TestApp::start(json!({})).await;
    let document = get(&app.url("/app/"), "identity").await;
    assert_eq!(header(&document, "cache-control"), "no-cache");
    let (etag, text) = (header(&document, "etag").to_owned(), document.text().await.unwrap());
    let again = client().get(app.url("/app/")).header("if-none-match", etag).send().await.unwrap();
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    for path in linked(&text) {
        let file = get(&app.url(&format!("/app/{path}")), "identity").await;
        let caching = header(&file, "cache-control");
        assert_eq!(caching, "public, max-age=31536000, immutable", "{path}");
    }
    let missing = get(&app.url("/app/assets/missing.js"), "identity").await;
    assert_eq!(header(&missing, "cache-control"), "private, no-store");
    problem(missing, 404, "route_not_found").await;
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_gets_the_encoding_that_it_accepts_with_a_tag_of_its_own() {
    let app = TestApp::start(json!({})).await;
    let document = get(&app.url("/app/"), "identity").await.text().await.unwrap();
    let script = linked(&document).into_iter().find(|path| path.contains(".js")).unwrap();
    let url = app.url(&format!("/app/{script}"));
    let [plain, packed] = [get(&url, "identity").await, get(&url, "gzip, br").await];
    assert_eq!(header(&plain, "content-encoding"), "");
    assert_eq!(header(&packed, "content-encoding"), "gzip");
    assert_ne!(header(&plain, "etag"), header(&packed, "etag"));
    for response in [&plain, &packed] {
        assert_eq!(header(response, "vary"), "accept-encoding");
        assert_eq!(header(response, "content-type"), "text/javascript; charset=utf-8");
    }
    let [plain, packed] = [plain.bytes().await.unwrap(), packed.bytes().await.unwrap()];
    assert!(packed.starts_with(&[0x1f, 0x8b]) && packed.len() * 2 < plain.len());
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_path_without_a_slash_leads_to_the_page_under_every_base_path() {
    let forwarding = Forwarding { base: Some("/agent".parse().unwrap()), ..Forwarding::default() };
    let app = TestApp::start_with(json!({}), Setup { forwarding, ..Setup::default() }).await;
    for base in ["", "/agent"] {
        let moved = get(&app.url(&format!("{base}/app?s=ses_1")), "identity").await;
        assert_eq!(moved.status(), StatusCode::PERMANENT_REDIRECT);
        let target = moved.url().join(header(&moved, "location")).unwrap();
        assert_eq!(target.as_str(), app.url(&format!("{base}/app/?s=ses_1")));
        assert_eq!(get(target.as_str(), "identity").await.status(), StatusCode::OK);
    }
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_works_under_the_path_of_each_proxy() {
    let app = TestApp::start(json!({})).await;
    for kind in ProxyKind::installed() {
        let proxy = RunningProxy::start(app.address, kind).await;
        let moved = get(&proxy.url("/agent/app"), "identity").await;
        let page = moved.url().join(header(&moved, "location")).unwrap();
        assert_eq!(page.path(), "/agent/app/", "{kind:?}");
        let document = get(page.as_str(), "identity").await;
        assert!(header(&document, "content-security-policy").contains("script-src 'self'"));
        for path in linked(&document.text().await.unwrap()) {
            let file = get(page.join(&path).unwrap().as_str(), "gzip").await;
            assert_eq!(file.status(), StatusCode::OK, "{kind:?}: {path}");
            assert_eq!(header(&file, "content-encoding"), "gzip", "{kind:?}: {path}");
        }
        proxy.stop().await;
    }
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn page_off_removes_every_path_of_the_page() {
    let app = TestApp::start_with(json!({}), Setup { no_page: true, ..Setup::default() }).await;
    for path in ["/app", "/app/", "/app/index.html"] {
        let response = get(&app.url(path), "identity").await;
        problem(response, 404, "route_not_found").await;
    }
    app.stop().await;
    let (status, stdout, stderr) =
        outcome(binary(&["config", "print", "--json", "--page", "off"])).await;
    assert_eq!(status, Some(0), "{stderr}");
    let option = stdout.lines().find(|line| line.contains("TWOSTEP_PAGE")).unwrap();
    assert!(option.contains("\"off\""), "{option}");
}
