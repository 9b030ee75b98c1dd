//! The service under a path of a larger site, behind proxies that remove the path or keep it.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use twostep::http::Forwarding;

use crate::support::{
    PROGRAM, Program, RawStream, Setup, TestApp, asks, binary, binary_at, calls_as, database,
    outcome, problem, replies, says,
};

fn under(base: &str) -> Setup {
    let forwarding = Forwarding { base: Some(base.parse().unwrap()), ..Forwarding::default() };
    Setup { forwarding, ..Setup::default() }
}

fn trusting(proxies: &str) -> Setup {
    let forwarding = Forwarding { trusted: proxies.parse().unwrap(), ..Forwarding::default() };
    Setup { forwarding, ..Setup::default() }
}

/// Creates a session and returns the path of the sessions in its `Location`.
async fn sessions_path(app: &TestApp, path: &str, prefix: Option<&str>) -> String {
    let mut post = app.post(path);
    if let Some(prefix) = prefix {
        post = post.header("x-forwarded-prefix", prefix);
    }
    let response = post.send().await.unwrap();
    assert_eq!(response.status(), 201);
    let location = response.headers()["location"].to_str().unwrap();
    let (base, id) = location.rsplit_once('/').unwrap();
    assert!(id.starts_with("ses_"), "{location}");
    base.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_is_reachable_with_and_without_its_base() {
    let app = TestApp::start_with(replies(&[]), under("/agent")).await;
    for path in ["/agent/v1/sessions", "/agent/sessions", "/v1/sessions", "/sessions"] {
        assert_eq!(sessions_path(&app, path, None).await, "/agent/v1/sessions", "{path}");
    }
    for path in ["/agent/healthz", "/healthz", "/agent/readyz", "/agent/metrics"] {
        assert_eq!(app.get(path).send().await.unwrap().status(), 200, "{path}");
    }
    for path in ["/agents/v1/sessions", "/agent/agent/v1/sessions", "/other/healthz", "/agent"] {
        assert_eq!(app.get(path).send().await.unwrap().status(), 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_proxy_names_the_prefix_that_it_removed() {
    let app = TestApp::start(replies(&[])).await;
    for (path, prefix, expected) in [
        ("/v1/sessions", "/agent", "/agent/v1/sessions"),
        ("/agent/v1/sessions", "/agent", "/agent/v1/sessions"),
        ("/v1/sessions", "/tools/agent/", "/tools/agent/v1/sessions"),
        ("/v1/sessions", "/", "/v1/sessions"),
        ("/v1/sessions", "//evil.example", "/v1/sessions"),
        ("/v1/sessions", "https://evil.example", "/v1/sessions"),
        ("/v1/sessions", "/a/../b", "/v1/sessions"),
        ("/v1/sessions", "/a%0d%0ab", "/v1/sessions"),
        ("/v1/sessions", "/one, /two", "/v1/sessions"),
    ] {
        assert_eq!(sessions_path(&app, path, Some(prefix)).await, expected, "{path} {prefix}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_prefix_of_an_untrusted_client_is_ignored() {
    let app = TestApp::start_with(replies(&[]), trusting("10.0.0.0/8")).await;
    assert_eq!(sessions_path(&app, "/v1/sessions", Some("/agent")).await, "/v1/sessions");
    let moved = app.get("/agent/healthz").header("x-forwarded-prefix", "/agent");
    assert_eq!(moved.send().await.unwrap().status(), 404);
}

/// All strings of a JSON value that are paths of the service.
fn paths(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) if text.contains("/v1/") || text.contains("/healthz") => vec![text],
        Value::Array(items) => items.iter().flat_map(paths).collect(),
        Value::Object(members) => members.values().flat_map(paths).collect(),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_path_in_a_response_begins_with_the_base() {
    let setup = Setup { forwarding: under("/agent").forwarding, ..asks() };
    let ring = calls_as(&[("toolu_1", "ring", json!({ "line": "Dong" }))]);
    let app = TestApp::start_with(replies(&[ring, says("Done.")]), setup).await;
    let session = app.session().await;
    let session_path = format!("/agent{}", session.path(""));

    let post = session.message(&json!({ "content": "Who am I?" }));
    let accepted = post.header("idempotency-key", "one").send().await.unwrap();
    let location = accepted.headers()["location"].to_str().unwrap().to_owned();
    let run: Value = accepted.json().await.unwrap();
    let run_path = format!("{session_path}/runs/{}", run["id"].as_str().unwrap());
    assert_eq!(location, run_path);
    assert_eq!(run["stream_url"], format!("{run_path}/stream"));

    let again = session.message(&json!({ "content": "Who am I?" }));
    let again = again.header("idempotency-key", "one").header("accept", "text/event-stream");
    let streamed = again.send().await.unwrap();
    assert_eq!(streamed.headers()["location"], format!("{run_path}/stream"));
    assert_eq!(streamed.headers()["content-location"], run_path);

    session.waits_for(&run, &["toolu_1"]).await;
    let explained: Value =
        app.get(&format!("{run_path}/explain")).send().await.unwrap().json().await.unwrap();
    assert_eq!(explained["unblocked_by"]["path"], format!("{session_path}/approvals/toolu_1"));
    let waited = session.message(&json!({ "content": "Who am I?" }));
    let waited = waited.header("idempotency-key", "one").header("prefer", "wait=5");
    let waited = waited.send().await.unwrap();
    assert_eq!(waited.headers()["content-location"], run_path);

    let decided = session.allow("toolu_1", json!({})).await;
    let settled = session.settled(&run).await;
    let runs: Value =
        app.get(&format!("{session_path}/runs")).send().await.unwrap().json().await.unwrap();
    let stopped = app.post(&format!("{run_path}/cancel")).send().await.unwrap();
    let stopped: Value = stopped.json().await.unwrap();
    let stream = format!("{run_path}/stream");
    let continued = decided["seq"].as_i64().unwrap();
    assert_eq!(paths(&decided), [format!("{stream}?after={continued}")], "{decided}");
    for response in [&settled, &runs, &stopped] {
        assert_eq!(paths(response), std::slice::from_ref(&stream), "{response}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_problem_names_the_path_that_the_client_requested() {
    let app = TestApp::start_with(replies(&[]), under("/agent")).await;
    for path in ["/agent/v1/sessions/ses_1", "/v1/sessions/ses_1"] {
        let problem = problem(app.get(path).send().await.unwrap(), 404, "session_not_found").await;
        assert_eq!(problem["instance"], "/agent/v1/sessions/ses_1");
    }
    let nowhere = problem(app.get("/nowhere").send().await.unwrap(), 404, "route_not_found").await;
    assert_eq!(nowhere["instance"], "/agent/nowhere");
    assert_eq!(nowhere["detail"], "there is no route /agent/nowhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_names_the_base_of_its_paths() {
    let app = TestApp::start_with(replies(&[]), under("/agent")).await;
    let mut document: Value =
        app.get("/agent/openapi.json").send().await.unwrap().json().await.unwrap();
    let servers = document.as_object_mut().unwrap().remove("servers");
    assert_eq!(servers, Some(json!([{ "url": "/agent" }])));
    let mut expected = serde_json::to_value(twostep::http::document()).unwrap();
    expected.as_object_mut().unwrap().remove("servers");
    assert_eq!(document, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prefix_cannot_break_a_header() {
    let app = TestApp::start(replies(&[])).await;
    for value in ["/a\tb", "/a b", "/a\u{7f}", "/\u{e9}", "/a;b", "/a\"b", "/a\\b"] {
        let head = format!("POST /v1/sessions HTTP/1.1\r\nx-forwarded-prefix: {value}");
        let response = RawStream::open(app.address, &head, "").await.head;
        assert!(
            response.starts_with("http/1.1 400")
                || response.contains("\r\nlocation: /v1/sessions/ses_"),
            "{value:?}: {response}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_show_the_client_and_not_the_proxy() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let database = database().await;
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("log");
    let mut command = binary_at(Path::new("/bin/sh"), &["-c", "exec \"$0\" \"$@\" 2>\"$LOG\""]);
    command.arg(PROGRAM).args(["serve", "--offline", "--bind", "127.0.0.1:0"]);
    command.args(["--base-path", "/agent", "--log", "twostep=info,sqlx=debug"]);
    command.args(["--allowed-hosts", "agent.example"]);
    command.env("DATABASE_URL", database.url()).env("LOG", &log);
    let program = Program::serve(command).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let get = client.get(format!("{}/agent/v1/sessions", program.url));
    let get = get
        .header("x-forwarded-for", "198.51.100.66, 203.0.113.7")
        .header("x-forwarded-proto", "https")
        .header("x-forwarded-host", "agent.example")
        .header("x-request-id", "the-one");
    assert_eq!(get.send().await.unwrap().status(), 200);
    program.terminate().await;
    let log = std::fs::read_to_string(log).unwrap();
    let line = log.lines().find(|line| line.contains("request.id=the-one")).unwrap();
    let fields = "http.method=GET http.path=/agent/v1/sessions http.origin=https://agent.example \
                client.address=203.0.113.7}";
    assert!(line.contains(fields), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_path_or_network_is_refused_at_the_start() {
    for (option, value, message) in [
        ("--base-path", "https://a.example/agent", "a base path is"),
        ("--base-path", "/a//b", "a base path is"),
        ("--trusted-proxies", "10.0.0.0/33", "\"10.0.0.0/33\" is neither an address nor a network"),
        ("--trusted-proxies", "proxy.example", "\"proxy.example\" is neither an address"),
    ] {
        let (status, _, error) = outcome(binary(&["serve", option, value])).await;
        assert_eq!(status, Some(2), "{option} {value}");
        assert!(error.contains(message), "{error}");
    }
}
