//! `WebFetch` without a question: pages, data and PDFs.

use std::sync::Arc;

use serde_json::{Value, json};
use twostep::outbound::AllowedHosts;
use twostep::tools::builtin::{Options, Web};
use twostep::tools::pdf::Reader;

use super::site::{MAX_PAGE, Site};
use super::{failed, results, round_of_calls};
use crate::support::{Setup, TestApp, replies, says};

pub(super) fn web_options(hosts: &[&str]) -> Options {
    // Fails when another test of this process has installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let hosts = AllowedHosts::parse(hosts.iter().copied()).unwrap();
    let documents = Reader::with_helper(env!("CARGO_BIN_EXE_twostep").into());
    let web = Web::new(hosts).unwrap().with_documents(documents);
    Options { web: Some(Arc::new(web)), ..Options::default() }
}

fn fetches(site: &Site, paths: &[&str]) -> Value {
    let call = |path: &&str| ("WebFetch", json!({ "url": site.url(path) }));
    round_of_calls(&paths.iter().map(call).collect::<Vec<_>>())
}

async fn read(site: &Site, hosts: &[&str], paths: &[&str]) -> Vec<(bool, String)> {
    let script = replies(&[fetches(site, paths), says("Read.")]);
    let setup = Setup { options: web_options(hosts), ..Setup::default() };
    let app = TestApp::start_with(script, setup).await;
    let session = app.session().await;
    assert_eq!(session.ask("Read").await["output_text"], "Read.");
    results(&session).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_returned_as_markdown_and_data_is_returned_unchanged() {
    let site = Site::start().await;
    let paths = ["/page", "/data", "/small", "/small-br", "/to?target=/page%23bread"];
    let page = format!("Title: A page\n\n# Bread\n\nTake [flour]({}).", site.url("/flour"));
    let found = |path: &str, text: &str| (false, format!("{}\n\n{text}", site.url(path)));
    assert_eq!(
        read(&site, &[&site.host], &paths).await,
        [
            found("/page", &page),
            found("/data", r#"{"flour": 500}"#),
            found("/small", "small"),
            found("/small-br", "small"),
            // The URL after the redirect.
            found("/page", &page),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fetched_pages_are_sources_of_the_run() {
    let site = Site::start().await;
    let paths = ["/page", "/data", "/page", "/nowhere"];
    let script = replies(&[fetches(&site, &paths), says("Read.")]);
    let setup = Setup { options: web_options(&[&site.host]), ..Setup::default() };
    let app = TestApp::start_with(script, setup).await;
    let run = app.session().await.ask("Read").await;
    let [page, data] = ["/page", "/data"].map(|path| site.url(path));
    // A page without a title has its URL as its title, and a page that was not read is no source.
    let expected = json!([{ "title": "A page", "url": page }, { "title": data, "url": data }]);
    assert_eq!(run["sources"], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_cannot_be_read_is_an_error_result_with_the_reason() {
    let site = Site::start().await;
    let paths =
        ["/too-full", "/bomb", "/bomb-br", "/odd", "/odd-br", "/report", "/nowhere", "/loop"];
    let long = "the body is longer than 5242880 bytes";
    assert_eq!(
        read(&site, &[&site.host], &paths).await,
        [
            failed(long),
            failed(long),
            failed(long),
            failed("the body cannot be decompressed"),
            failed("the body cannot be decompressed"),
            failed("the PDF could not be read: it is damaged or not a PDF"),
            failed("the page answered with status 404"),
            failed("fetch failed"),
        ]
    );
    assert_eq!(site.requested_paths().iter().filter(|path| *path == "/loop").count(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pdf_is_returned_page_by_page_or_the_error_has_the_reason() {
    let site = Site::start().await;
    let paths = ["/bread", "/download", "/locked", "/scan"];
    let found = read(&site, &[&site.host], &paths).await;
    let begin = format!("{}\n\nTitle: On bread\n\n[page 1]\n\nBread\n", site.url("/bread"));
    let (is_error, bread) = &found[0];
    assert!(!is_error && bread.starts_with(&begin), "{bread}");
    assert!(bread.contains("\n\n[page 2]\n\nSoup\n"), "{bread}");
    let asian = "Title: untitled\n\nパンとスープ\n面包和汤\n麵包和湯\n빵과 수프";
    assert_eq!(
        found[1..],
        [
            (false, format!("{}\n\n{asian}", site.url("/download"))),
            failed("the PDF could not be read: it is encrypted and needs a password"),
            failed("the PDF could not be read: it has no text, only images"),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_page_is_truncated_and_stored_as_a_whole_in_a_file() {
    let site = Site::start().await;
    let [(is_error, text)] = &read(&site, &[&site.host], &["/full"]).await[..] else { panic!() };
    assert!(!is_error);
    let length = MAX_PAGE + site.url("/full").len() + 2;
    let note = format!("[truncated: the whole result has {length} bytes and is in the file ");
    assert!(text.contains(&note), "{}", &text[text.len() - 200..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_not_allowed_is_never_contacted_even_by_a_redirect() {
    let site = Site::start().await;
    let (port, host) = (site.host.rsplit_once(':').unwrap().1, site.host.as_str());
    let other = Site::start().await;
    let redirect = |target: &str| format!("/to?target={target}");
    let paths = [
        redirect(&other.url("/page")),
        redirect(&format!("http://127.0.0.1:{port}/page")),
        redirect("http://169.254.169.254/latest/meta-data/"),
        redirect("file:///etc/passwd"),
    ];
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    assert_eq!(read(&site, &[host, "public"], &paths).await, vec![failed("fetch failed"); 4]);
    assert_eq!(read(&site, &["public"], &["/page"]).await, [failed("fetch failed")]);
    assert_eq!(
        (other.requested_paths(), site.requested_paths()),
        (vec![], vec!["/to".to_owned(); 4])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_connection_is_reported_as_a_network_error() {
    let site = Site::start().await;
    let script = replies(&[fetches(&site, &["/page"]), says("I cannot.")]);
    let setup = Setup { options: web_options(&[]), ..Setup::default() };
    let app = TestApp::start_with(script, setup).await;
    let session = app.session().await;
    session.ask("Read").await;
    let events = session.events().await;
    let result = events.iter().find(|event| event["type"] == "agent.tool_result").unwrap();
    assert_eq!(result["error_type"], "NETWORK_ERROR");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_was_just_read_is_not_requested_again() {
    let site = Site::start().await;
    let read = || fetches(&site, &["/page"]);
    let script = replies(&[read(), read(), fetches(&site, &["/nowhere"]), says("Read.")]);
    let setup = Setup { options: web_options(&[&site.host]), ..Setup::default() };
    let app = TestApp::start_with(script, setup).await;
    for text in ["Read", "Read once more"] {
        assert_eq!(app.session().await.ask(text).await["output_text"], "Read.");
    }
    assert_eq!(site.requested_paths(), ["/page", "/nowhere", "/nowhere"]);
}
