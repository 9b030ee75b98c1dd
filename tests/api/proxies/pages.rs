//! Web pages of another origin, and browsers that use HTTP/2, behind each proxy.

use std::fs::write;

use reqwest::header::ACCESS_CONTROL_ALLOW_ORIGIN;
use reqwest::{Client, Method, Response, StatusCode, Version};

use super::processes::{ProxyKind, RunningProxy, free};
use crate::models::certificates::{CERTIFICATE, KEY};
use crate::support::{Setup, TestApp, client_with, replies};

/// The origin that the documented configurations name.
const PAGE: &str = "https://app.example";

/// Requests a path as a page of an origin.
async fn requested(client: &Client, proxy: &RunningProxy, origin: &str) -> Response {
    let url = proxy.url("/agent/v1/sessions");
    client.get(url).header("origin", origin).send().await.unwrap()
}

/// The values of `Access-Control-Allow-Origin`.
fn allowed(response: &Response) -> Vec<&str> {
    let values = response.headers().get_all(ACCESS_CONTROL_ALLOW_ORIGIN).into_iter();
    values.map(|value| value.to_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_can_read_the_status_of_an_error_of_the_proxy() {
    let client = client_with(None);
    for kind in ProxyKind::installed() {
        // Nothing listens at this address.
        let proxy = RunningProxy::start(free(), kind).await;
        let response = requested(&client, &proxy, PAGE).await;
        assert!(response.status().is_server_error(), "{kind:?}: {}", response.status());
        assert_eq!(allowed(&response), [PAGE], "{kind:?}");
        let other = requested(&client, &proxy, "https://other.example").await;
        assert_eq!(allowed(&other), [""; 0], "{kind:?}");
        proxy.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_can_read_that_its_message_is_too_large_for_nginx() {
    if !ProxyKind::installed().contains(&ProxyKind::Nginx) {
        return;
    }
    let proxy = RunningProxy::start(free(), ProxyKind::Nginx).await;
    let post = client_with(None).post(proxy.url("/agent/v1/sessions")).header("origin", PAGE);
    let response = post.body(vec![b' '; 34 * 1024 * 1024]).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(allowed(&response), [PAGE]);
    proxy.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_of_the_service_keep_their_own_cors_header() {
    let setup = Setup { cors_origins: vec![PAGE], ..Setup::default() };
    let app = TestApp::start_with(replies(&[]), setup).await;
    for kind in ProxyKind::installed() {
        let proxy = RunningProxy::start(app.address, kind).await;
        let response = requested(&app.client, &proxy, PAGE).await;
        assert_eq!(
            (response.status(), allowed(&response)),
            (StatusCode::OK, vec![PAGE]),
            "{kind:?}"
        );
        let preflight = client_with(None).request(Method::OPTIONS, proxy.url("/agent/v1/sessions"));
        let preflight = preflight.header("origin", PAGE);
        let preflight = preflight.header("access-control-request-method", "POST").send().await;
        assert_eq!(allowed(&preflight.unwrap()), [PAGE], "{kind:?}");
        proxy.stop().await;
    }
}

fn pem(label: &str, base64: &str) -> String {
    let lines: Vec<&str> =
        base64.as_bytes().chunks(64).map(|line| str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lines_for_tls_offer_http_2() {
    let app = TestApp::start(replies(&[])).await;
    let _ = client_with(None);
    let insecure = Client::builder().no_proxy().tls_danger_accept_invalid_certs(true);
    let client = insecure.build().unwrap();
    for kind in ProxyKind::installed() {
        let (own, files) = (free(), data_dir_with_certificate());
        let folder = files.path().display();
        let listen = format!("listen {own} ssl http2;");
        let certificate = format!("ssl_certificate {folder}/both.pem;");
        let key = format!("ssl_certificate_key {folder}/both.pem;");
        let bind = format!("bind {own} ssl crt {folder}/both.pem alpn h2,http/1.1");
        let changes: &[(&str, &str)] = match kind {
            ProxyKind::Nginx => &[
                ("# listen 443 ssl http2;", &listen),
                ("# ssl_certificate /etc/nginx/certs/agent.example.com.pem;", &certificate),
                ("# ssl_certificate_key /etc/nginx/certs/agent.example.com.key;", &key),
            ],
            ProxyKind::HaProxy => {
                &[("# bind :443 ssl crt /etc/haproxy/certs alpn h2,http/1.1", &bind)]
            }
            // Caddy has no such lines: it uses TLS and HTTP/2 if it has a host name.
            ProxyKind::Caddy => continue,
        };
        let proxy = RunningProxy::start_changed(app.address, kind, changes).await;
        let url = format!("https://{own}/agent/v1/sessions");
        let response = client.get(url).send().await.unwrap();
        assert_eq!((response.status(), response.version()), (StatusCode::OK, Version::HTTP_2));
        proxy.stop().await;
    }
}

fn data_dir_with_certificate() -> tempfile::TempDir {
    let folder = crate::support::data_dir();
    let both = pem("CERTIFICATE", CERTIFICATE) + &pem("PRIVATE KEY", KEY);
    write(folder.path().join("both.pem"), both).unwrap();
    folder
}
