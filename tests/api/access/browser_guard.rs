//! Pages of browsers: those that may use the service, and those that must not.

use reqwest::{Method, RequestBuilder, Response};
use serde_json::json;

use crate::support::{Setup, TestApp, keys_needed, problem, replies, says};

const APP: &str = "https://app.example";
const EVIL: &str = "https://evil.example";

fn with_cors(setup: Setup) -> Setup {
    Setup { cors_origins: vec![APP], ..setup }
}

fn preflight(app: &TestApp, origin: &str) -> RequestBuilder {
    let request = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = request.request(Method::OPTIONS, app.url("/v1/sessions/ses_1/messages"));
    let request = request.header("origin", origin);
    request
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization,content-type")
}

/// What an answer says to the browser.
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
        preference-applied,x-should-retry";
    vec![
        ("allow-origin".to_owned(), APP.to_owned()),
        ("expose-headers".to_owned(), headers.to_owned()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_allowed_is_told_what_it_may_send() {
    let app = TestApp::start_with(json!({}), with_cors(keys_needed())).await;
    let answer = preflight(&app, APP).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let headers = "authorization,x-api-key,content-type,accept,idempotency-key,last-event-id,\
        if-match,if-none-match,prefer,x-request-id,traceparent,tracestate";
    let expected = [
        ("allow-headers", headers),
        ("allow-methods", "GET,POST,PATCH,DELETE"),
        ("allow-origin", APP),
        ("max-age", "600"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(cors(&answer), expected);
    let vary = answer.headers()["vary"].to_str().unwrap();
    assert!(vary.to_ascii_lowercase().contains("origin"), "{vary}");

    let others = preflight(&app, EVIL).send().await.unwrap();
    assert!(cors(&others).iter().all(|(name, _)| name != "allow-origin"), "{others:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_allowed_can_read_every_answer() {
    let setup = Setup { rate_limit: 3, max_streams: Some(1), ..with_cors(keys_needed()) };
    let app = TestApp::start_with(replies(&[says("Hello.")]), setup).await;
    let session = app.session().await;
    let path = session.path("/events/stream");
    let from_app = |request: RequestBuilder| request.header("origin", APP).send();
    let stranger = from_app(app.get_as(None, &path)).await.unwrap();
    assert_eq!((stranger.status().as_u16(), cors(&stranger)), (401, exposed()));
    let stream = from_app(app.get(&path)).await.unwrap();
    assert_eq!((stream.status().as_u16(), cors(&stream)), (200, exposed()));
    let no_place = from_app(app.get(&path)).await.unwrap();
    assert_eq!((no_place.status().as_u16(), cors(&no_place)), (503, exposed()));
    let too_often = from_app(app.get(&path)).await.unwrap();
    assert_eq!((too_often.status().as_u16(), cors(&too_often)), (429, exposed()));
    let elsewhere = from_app(app.get("/elsewhere")).await.unwrap();
    assert_eq!((elsewhere.status().as_u16(), cors(&elsewhere)), (404, exposed()));
    drop(stream);
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_can_read_anything() {
    for setup in [keys_needed(), with_cors(keys_needed())] {
        let allows_some = !setup.cors_origins.is_empty();
        let app = TestApp::start_with(json!({}), setup).await;
        let answer = app.get("/v1/sessions").header("origin", EVIL).send().await.unwrap();
        // A page with a key is as good as any other client, but its browser does not let it read.
        assert_eq!(answer.status(), 200);
        assert!(cors(&answer).iter().all(|(name, _)| name != "allow-origin"), "{answer:?}");
        if !allows_some {
            let answer = preflight(&app, APP).send().await.unwrap();
            assert_eq!((answer.status().as_u16(), cors(&answer)), (405, vec![]));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_origin_does_not_drive_an_open_service() {
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
async fn a_page_that_is_allowed_may_drive_an_open_service() {
    let app = TestApp::start_with(json!({}), with_cors(Setup::default())).await;
    let post =
        app.post("/v1/sessions").header("origin", APP).header("sec-fetch-site", "cross-site");
    assert_eq!(post.send().await.unwrap().status(), 201);
    let post = app.post("/v1/sessions").header("origin", EVIL).send().await.unwrap();
    problem(post, 403, "forbidden_origin").await;
}

/// The status of a read under this host.
async fn status_under(app: &TestApp, host: &str) -> u16 {
    let read = app.get("/v1/sessions").header("host", host).send().await.unwrap();
    read.status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_was_pointed_at_this_machine_opens_nothing() {
    let setup = Setup { allowed_hosts: Some(vec!["twostep.example"]), ..Setup::default() };
    let app = TestApp::start_with(json!({}), setup).await;
    let port = app.address.port();
    for host in [app.address.to_string(), format!("localhost:{port}"), "twostep.example".into()] {
        assert_eq!(status_under(&app, &host).await, 200, "{host}");
    }
    assert_eq!(status_under(&app, &format!("evil.example:{port}")).await, 421);
    // Nor behind a proxy that puts a name of its own into `Host`.
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

/// What a form or a script can send to another site without asking it first.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_browser_sends_without_a_preflight_is_not_taken_for_json() {
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
