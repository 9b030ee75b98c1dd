//! Invalid requests: each is refused with a machine-readable error and changes nothing.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{TestApp, assert_refused, exchange, invalid, raw, refusal, replies, says};

async fn app() -> TestApp {
    TestApp::start(replies(&[says("Yes.")])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_not_json_is_refused() {
    let app = app().await;
    let session = app.session().await;
    let nested = |open: &str, close: &str| {
        let (open, close) = (open.repeat(10_000), close.repeat(10_000));
        format!(r#"{{"content":"Hi","tools":[{{"input_schema":{open}1{close}}}]}}"#)
    };
    let table: Vec<Vec<u8>> = vec![
        b"".into(),
        b"{".into(),
        b"nope".into(),
        b"{\"content\":\"Hi\"".into(),
        b"{\"content\":\"Hi\"} {}".into(),
        b"{\"content\":\"Hi\",}".into(),
        b"{\"content\":\"\xff\xfe\"}".into(),
        b"{\"content\":\"a\nb\"}".into(),
        br#"{"content":"\ud800"}"#.into(),
        br#"{"content":"\udc00\ud800"}"#.into(),
        br#"{"content":"Hi","limits":{"tokens":1e999}}"#.into(),
        nested("[", "]").into(),
        nested("{\"a\":", "}").into(),
    ];
    for body in table {
        assert_refused(&session, raw(&session, body), refusal(400, "bad_json")).await;
    }
    let deep = format!("{{\"content\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    assert_refused(&session, raw(&session, deep), invalid("/content/0")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn media_types_are_checked() {
    let app = app().await;
    let session = app.session().await;
    let hi = r#"{"content":"Hi"}"#;
    let post = || app.post(&session.path("/messages")).body(hi);
    let unsupported = || refusal(415, "unsupported_media_type");
    assert_refused(&session, post(), unsupported()).await;
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json", ""]
    {
        assert_refused(&session, post().header("content-type", kind), unsupported()).await;
    }
    let form = app.post("/v1/sessions").header("content-type", "text/plain").body("{}");
    assert_refused(&session, form, unsupported()).await;
    for accept in ["text/html", "image/*", "application/xml;q=0.9, text/plain"] {
        let request = raw(&session, hi).header("accept", accept);
        assert_refused(&session, request, refusal(406, "not_acceptable")).await;
    }
    for kind in ["application/json; charset=utf-8", "Application/JSON", "application/ld+json"] {
        let request = post().header("content-type", kind).header("prefer", "wait=20");
        let response = request.send().await.unwrap();
        assert_eq!(response.json::<Value>().await.unwrap()["output_text"], "Yes.");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_size_of_a_body_is_limited() {
    let app = app().await;
    let session = app.session().await;
    let body = |len: usize| {
        let (head, tail) = (
            "{\"content\":\"",
            "\",\"tool_choice\":{\"type\":\"any\"},\"limits\":{\"rounds\":9999}}",
        );
        format!("{head}{}{tail}", "x".repeat(len - head.len() - tail.len()))
    };
    let limit = 32_000_000;
    assert_refused(&session, raw(&session, body(limit)), invalid("/limits/rounds")).await;
    assert_refused(&session, raw(&session, body(limit + 1)), refusal(413, "body_too_large")).await;
    let limit = 4 * 1024 * 1024;
    let create = app.post("/v1/sessions").header("content-type", "application/json");
    assert_refused(&session, create.body(body(limit + 1)), refusal(413, "body_too_large")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_and_paths_that_do_not_exist_are_not_found() {
    let app = app().await;
    let (session, other) = (app.session().await, app.session().await);
    let run = other.ask("Hi").await;
    let other_run = run["id"].as_str().unwrap();
    let unknown_session = "ses_00000000000070008000000000000000";
    let unknown_run = "run_00000000000070008000000000000000";
    for id in [unknown_session, "ses_0", "nonsense", other_run, "%00", "%22"] {
        for path in ["", "/messages", "/events", "/events/stream", "/runs"] {
            let request = app.get(&format!("/v1/sessions/{id}{path}"));
            assert_refused(&session, request, refusal(404, "session_not_found")).await;
        }
        let post = app.post(&format!("/v1/sessions/{id}/messages"));
        let post = post.json(&json!({ "content": "Hi" }));
        assert_refused(&session, post, refusal(404, "session_not_found")).await;
    }
    for id in [unknown_run, "run_0", unknown_session, other_run] {
        for path in ["", "/stream"] {
            let request = app.get(&session.path(&format!("/runs/{id}{path}")));
            assert_refused(&session, request, refusal(404, "run_not_found")).await;
        }
    }
    for path in ["/", "/v1", "/v2/sessions", "/v1/sessions/", "/v1/v1/sessions", "/v1/healthz/x"] {
        assert_refused(&session, app.get(path), refusal(404, "route_not_found")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_method_is_distinguished_from_a_wrong_path() {
    let app = app().await;
    let session = app.session().await;
    for (method, path, allowed) in [
        (Method::PUT, session.path("/messages"), "GET,HEAD,POST"),
        (Method::DELETE, session.path("/events"), "GET,HEAD,POST"),
        (Method::PATCH, "/v1/sessions".to_owned(), "GET,HEAD,POST"),
        (Method::GET, session.path("/cancel"), "POST"),
        (Method::POST, "/healthz".to_owned(), "GET,HEAD"),
        (Method::POST, "/tools".to_owned(), "GET,HEAD"),
    ] {
        let request = || app.client.request(method.clone(), app.url(&path));
        let response = request().send().await.unwrap();
        let mut allow: Vec<&str> =
            response.headers()["allow"].to_str().unwrap().split(',').collect();
        allow.sort_unstable();
        assert_eq!(allow.join(","), allowed, "{path}");
        assert_refused(&session, request(), refusal(405, "method_not_allowed")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_and_cursors_are_checked() {
    let app = app().await;
    let session = app.session().await;
    let run = session.ask("Hi").await;
    let stream = format!("/runs/{}/stream", run["id"].as_str().unwrap());
    for (path, code) in [
        ("/messages?limit=0", "invalid_query"),
        ("/messages?limit=201", "invalid_query"),
        ("/messages?limit=ten", "invalid_query"),
        ("/messages?limit=-1", "invalid_query"),
        ("/messages?page=2", "invalid_query"),
        ("/messages?after=x", "invalid_cursor"),
        ("/messages?before=99999999999", "invalid_cursor"),
        ("/events?limit=0", "invalid_query"),
        ("/events?after=x", "invalid_cursor"),
        ("/events?after=1&after=2", "invalid_query"),
        ("/runs?after=x", "invalid_cursor"),
        ("/runs?status=asleep", "invalid_query"),
        ("/events/stream?after=x", "invalid_query"),
        ("/events/stream?after=-1", "invalid_cursor"),
        ("/events/stream?deltas=maybe", "invalid_query"),
        ("/events/stream?last=1", "invalid_query"),
    ] {
        assert_refused(&session, app.get(&session.path(path)), refusal(400, code)).await;
    }
    for path in ["/v1/sessions?after=x", "/v1/sessions?after=run_00000000000070008000000000000000"]
    {
        assert_refused(&session, app.get(path), refusal(400, "invalid_cursor")).await;
    }
    for path in [stream.as_str(), "/events/stream"] {
        for last in ["x", "-1", "", "1.5", "99999999999999999999", "\u{661}"] {
            let request = app.get(&session.path(path)).header("last-event-id", last);
            assert_refused(&session, request, refusal(400, "invalid_cursor")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idempotency_keys_are_checked() {
    let app = app().await;
    let session = app.session().await;
    for key in ["", "\u{e9}", &"x".repeat(256)] {
        let request = session.message(&json!({ "content": "Hi" })).header("idempotency-key", key);
        assert_refused(&session, request, invalid("")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_valid_request_id_is_echoed_and_an_invalid_one_replaced() {
    let app = app().await;
    let echoed = async |given: &[u8]| {
        let request = app.get("/healthz").header("x-request-id", given);
        let response = request.send().await.unwrap();
        assert_eq!(response.headers().get_all("x-request-id").iter().count(), 1);
        response.headers()["x-request-id"].to_str().unwrap().to_owned()
    };
    let long = "x".repeat(128);
    for valid in ["a", "req_1.2-3", &long] {
        assert_eq!(echoed(valid.as_bytes()).await, valid);
    }
    let longer = "x".repeat(129);
    for invalid_id in ["", "a b", "a\tb", "<script>", "a,b", "\u{e9}", "{\"a\":1}", &longer] {
        let generated = echoed(invalid_id.as_bytes()).await;
        assert!(
            generated.starts_with("req_") && generated.len() == 36,
            "{invalid_id:?}: {generated}"
        );
    }
    let generated = app.get("/healthz").send().await.unwrap();
    assert!(generated.headers()["x-request-id"].to_str().unwrap().starts_with("req_"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_not_http_or_incomplete_changes_nothing() {
    let app = app().await;
    let session = app.session().await;
    session.ask("Hello").await;
    let before = session.events().await;
    let post = format!("POST {} HTTP/1.1\r\nhost: x\r\n", session.path("/messages"));
    let typed = format!("{post}content-type: application/json\r\n");
    for bytes in [
        "\x16\x03\x01\x02\x00".to_owned(),
        "hello\r\n\r\n".to_owned(),
        format!("{typed}content-length: 100\r\n\r\n{{\"content\":\"Hi\"}}"),
        format!("{typed}content-length: 16\r\n\r\n{{\"content\":\"H"),
        format!("{typed}content-length: -1\r\n\r\n{{\"content\":\"Hi\"}}"),
        format!("{typed}transfer-encoding: chunked\r\n\r\n10\r\n{{\"content\":\"Hi\"}}\r\n"),
        format!(
            "{typed}transfer-encoding: chunked\r\n\r\nzz\r\n{{\"content\":\"Hi\"}}\r\n0\r\n\r\n"
        ),
        format!(
            "{post}x-request-id: a\r\n b\r\ncontent-type: application/json\r\ncontent-length: 16\r\n\r\n{{\"content\":\"Hi\"}}"
        ),
    ] {
        let response = exchange(app.address, bytes.as_bytes()).await;
        let is_refused = response.is_empty() || response.starts_with("HTTP/1.1 400 ");
        assert!(is_refused, "{bytes:?}: {response}");
        assert_eq!(session.events().await, before, "{bytes:?}");
    }
    assert_eq!(session.ask("Are you there?").await["output_text"], "Yes.");
}
