//! Web pages: pages of allowed origins can use the service, other pages cannot.

use reqwest::{Method, RequestBuilder, Response};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{
    Program, Setup, TestApp, binary, client_with, data_dir, database, keys_needed, problem,
    replies, says,
};

const APP: &str = "https://app.example";
const EVIL: &str = "https://evil.example";
/// Headers that the SDK of a vendor sends.
const SDK_HEADERS: &str = "authorization,content-type,idempotency-key,x-stainless-lang,baggage";

fn with_cors(setup: Setup) -> Setup {
    Setup { cors_origins: vec![APP], ..setup }
}

fn preflight(app: &TestApp, origin: &str) -> RequestBuilder {
    let request = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = request.request(Method::OPTIONS, app.url("/v1/sessions/ses_1/messages"));
    let request = request.header("origin", origin);
    request
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", SDK_HEADERS)
}

/// The CORS headers of a response, without their prefix.
fn cors(response: &Response) -> Vec<(String, String)> {
    let named = response.headers().iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix("access-control-")?;
        Some((name.to_owned(), value.to_str().unwrap().to_owned()))
    });
    let mut all: Vec<(String, String)> = named.collect();
    all.sort();
    all
}

fn exposed() -> Vec<(String, String)> {
    let headers = "location,content-location,link,etag,retry-after,x-request-id,ratelimit,\
        ratelimit-policy,idempotency-replayed,content-disposition,deprecation,sunset,\
        preference-applied,x-should-retry,www-authenticate,allow,accept,accept-post,accept-patch,\
        accept-encoding";
    vec![
        ("allow-origin".to_owned(), APP.to_owned()),
        ("expose-headers".to_owned(), headers.to_owned()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preflight_of_an_allowed_origin_lists_methods_and_headers() {
    let app = TestApp::start_with(json!({}), with_cors(keys_needed())).await;
    let response = preflight(&app, APP).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let expected = [
        ("allow-headers", SDK_HEADERS),
        ("allow-methods", "GET,POST,PUT,PATCH,DELETE"),
        ("allow-origin", APP),
        ("max-age", "7200"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(cors(&response), expected);
    let vary = response.headers()["vary"].to_str().unwrap();
    assert!(vary.to_ascii_lowercase().contains("origin"), "{vary}");

    let others = preflight(&app, EVIL).send().await.unwrap();
    assert!(cors(&others).iter().all(|(name, _)| name != "allow-origin"), "{others:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preflight_repeats_only_valid_header_names() {
    let app = TestApp::start_with(json!({}), with_cors(keys_needed())).await;
    for (asked, allowed) in [
        ("x-ok, bad name,<script>,X-Also", Some("x-ok,x-also")),
        ("a b,(c),d:e,\"f\"", None),
        ("", None),
    ] {
        let url = app.url("/v1/sessions");
        let request = app.client.request(Method::OPTIONS, url).header("origin", APP);
        let request = request.header("access-control-request-method", "POST");
        let request = request.header("access-control-request-headers", asked);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        let headers = response.headers().get("access-control-allow-headers");
        assert_eq!(headers.map(|value| value.to_str().unwrap()), allowed, "{asked}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_an_allowed_origin_can_read_every_response() {
    let setup = Setup { rate_limit: 3, max_streams: Some(1), ..with_cors(keys_needed()) };
    let app = TestApp::start_with(replies(&[says("Hello.")]), setup).await;
    let session = app.session().await;
    let path = session.path("/events/stream");
    let from_app = |request: RequestBuilder| request.header("origin", APP).send();
    let unauthenticated = from_app(app.get_as(None, &path)).await.unwrap();
    assert_eq!((unauthenticated.status().as_u16(), cors(&unauthenticated)), (401, exposed()));
    let stream = from_app(app.get(&path)).await.unwrap();
    assert_eq!((stream.status().as_u16(), cors(&stream)), (200, exposed()));
    let too_many = from_app(app.get(&path)).await.unwrap();
    assert_eq!((too_many.status().as_u16(), cors(&too_many)), (503, exposed()));
    let too_often = from_app(app.get(&path)).await.unwrap();
    assert_eq!((too_often.status().as_u16(), cors(&too_often)), (429, exposed()));
    let not_found = from_app(app.get("/elsewhere")).await.unwrap();
    assert_eq!((not_found.status().as_u16(), cors(&not_found)), (404, exposed()));
    drop(stream);
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_origins_can_read_nothing() {
    for setup in [keys_needed(), with_cors(keys_needed())] {
        let allows_some = !setup.cors_origins.is_empty();
        let app = TestApp::start_with(json!({}), setup).await;
        let response = app.get("/v1/sessions").header("origin", EVIL).send().await.unwrap();
        // A page with a key is a client like any other, but its browser does not let it read.
        assert_eq!(response.status(), 200);
        assert!(cors(&response).iter().all(|(name, _)| name != "allow-origin"), "{response:?}");
        if !allows_some {
            let response = preflight(&app, APP).send().await.unwrap();
            assert_eq!((response.status().as_u16(), cors(&response)), (405, vec![]));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_origin_cannot_use_a_service_without_keys() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session = app.session().await;
    let message = || session.message(&json!({ "content": "Hi" }));
    let here = format!("http://{}", app.address);
    for request in [
        message().header("origin", EVIL),
        message().header("origin", "null"),
        message().header("origin", "http://localhost:1"),
        message().header("sec-fetch-site", "cross-site"),
        app.post("/v1/sessions").header("origin", EVIL),
        app.get(&session.path("/events/stream")).header("origin", EVIL),
        app.get(&session.path("")).header("sec-fetch-site", "cross-site"),
    ] {
        problem(request.send().await.unwrap(), 403, "forbidden_origin").await;
    }
    assert_eq!(session.events().await, Vec::<serde_json::Value>::new());
    let own = message().header("origin", here).header("prefer", "wait=30").send().await.unwrap();
    assert_eq!(own.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_an_allowed_origin_can_use_a_service_without_keys() {
    let app = TestApp::start_with(json!({}), with_cors(Setup::default())).await;
    let post =
        app.post("/v1/sessions").header("origin", APP).header("sec-fetch-site", "cross-site");
    assert_eq!(post.send().await.unwrap().status(), 201);
    let post = app.post("/v1/sessions").header("origin", EVIL).send().await.unwrap();
    problem(post, 403, "forbidden_origin").await;
}

/// The status of a request with this host.
async fn status_under(app: &TestApp, host: &str) -> u16 {
    let read = app.get("/v1/sessions").header("host", host).send().await.unwrap();
    read.status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_an_unknown_host_is_refused_because_of_dns_rebinding() {
    let setup = Setup { allowed_hosts: Some(vec!["twostep.example"]), ..Setup::default() };
    let app = TestApp::start_with(json!({}), setup).await;
    let port = app.address.port();
    for host in [app.address.to_string(), format!("localhost:{port}"), "twostep.example".into()] {
        assert_eq!(status_under(&app, &host).await, 200, "{host}");
    }
    assert_eq!(status_under(&app, &format!("evil.example:{port}")).await, 421);
    // Behind a proxy that replaces `Host`, the forwarded host is checked.
    let proxied = app.get("/v1/sessions").header("x-forwarded-host", "evil.example");
    assert_eq!(proxied.send().await.unwrap().status(), 421);
    let proxied = app.get("/v1/sessions").header("x-forwarded-host", "twostep.example");
    assert_eq!(proxied.send().await.unwrap().status(), 200);
    let rebound = app.post("/v1/sessions").header("host", "evil.example");
    let rebound = rebound.header("origin", "http://evil.example").send().await.unwrap();
    let problem = problem(rebound, 421, "misdirected_request").await;
    assert_eq!(
        problem["detail"],
        "\"evil.example\" is not a host of this service; --allowed-hosts allows hosts"
    );
}

/// A form or a script can send these content types to another site without a preflight.
#[tokio::test(flavor = "multi_thread")]
async fn content_types_that_need_no_preflight_are_not_accepted_as_json() {
    let app = TestApp::start_with(replies(&[says("Hello.")]), keys_needed()).await;
    let session = app.session().await;
    let kinds = [
        "text/plain",
        "text/plain;charset=utf-8",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
    ];
    for kind in kinds {
        for path in
            [session.path("/messages"), session.path("/tool_results"), "/v1/sessions".into()]
        {
            let post = app.post(&path).header("content-type", kind).body(r#"{"content":"Hi"}"#);
            problem(post.send().await.unwrap(), 415, "unsupported_media_type").await;
        }
    }
    assert_eq!(session.events().await, Vec::<serde_json::Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_service_without_keys_refuses_other_ports_and_unspecified_addresses() {
    let database = database().await;
    let mut command = binary(&["serve", "--offline", "--bind", "127.0.0.1:0"]);
    command.args(["--allowed-hosts", "twostep.example"]).env("DATABASE_URL", database.url());
    let folder = data_dir();
    command.arg("--data-dir").arg(folder.path());
    let program = Program::serve(command).await;
    let port: u16 = program.address().rsplit_once(':').unwrap().1.parse().unwrap();
    let other = if port == 3000 { 3001 } else { 3000 };
    for (host, status) in [
        (format!("127.0.0.1:{port}"), 200),
        (format!("localhost:{port}"), 200),
        (format!("[::1]:{port}"), 200),
        ("localhost".to_owned(), 200),
        (format!("twostep.example:{other}"), 200),
        (format!("127.0.0.1:{other}"), 421),
        (format!("localhost:{other}"), 421),
        (format!("[::1]:{other}"), 421),
        (format!("0.0.0.0:{port}"), 421),
        ("0.0.0.0".to_owned(), 421),
        (format!("[::]:{port}"), 421),
    ] {
        let read = client_with(None).get(format!("{}/v1/sessions", program.url));
        let read = read.header("host", &host).send().await.unwrap();
        assert_eq!(read.status(), status, "{host}");
    }
    program.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_two_hosts_is_refused_by_every_service() {
    for setup in [Setup::default(), keys_needed()] {
        let app = TestApp::start_with(json!({}), setup).await;
        for second in ["evil.example", &app.address.to_string()] {
            let request = format!(
                "GET /v1/sessions HTTP/1.1\r\nhost: {}\r\nhost: {second}\r\n\
                 connection: close\r\n\r\n",
                app.address
            );
            let mut connection = TcpStream::connect(app.address).await.unwrap();
            connection.write_all(request.as_bytes()).await.unwrap();
            let mut response = String::new();
            connection.read_to_string(&mut response).await.unwrap();
            assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
            assert!(response.contains(r#""code":"invalid_host""#), "{response}");
        }
        app.stop().await;
    }
}
