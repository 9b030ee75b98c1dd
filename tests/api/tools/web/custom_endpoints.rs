//! Tools that the operator declares, each with an HTTP endpoint.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use http::StatusCode;
use http::header::{CONTENT_TYPE, LOCATION};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use twostep::domain::webhook::WebhookSecret;
use twostep::tools::endpoints;
use twostep::tools::policy::OperatorPolicy;

use super::{results, round_of_calls};
use crate::faults::takeover::lose_worker;
use crate::support::{Setup, TestApp, calls, pending, replies, says};

const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

type Requests = Arc<Mutex<Vec<(String, HeaderMap, String)>>>;

/// A server that records its requests: path, headers and body.
struct Endpoint {
    host: String,
    requests: Requests,
    _task: AbortOnDropHandle<()>,
}

impl Endpoint {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let requests = Requests::default();
        let router = Router::new().fallback(any(answer)).with_state(Arc::clone(&requests));
        let serving = async { axum::serve(listener, router).await.unwrap() };
        Self { host, requests, _task: AbortOnDropHandle::new(TaskTracker::new().spawn(serving)) }
    }

    /// A setup with one tool of this class per path.
    fn setup(&self, class: &str, paths: &[&str]) -> Setup {
        let tool = |path: &&str| {
            json!({
                "name": path, "description": "Does something.",
                "input_schema": { "type": "object", "properties": { "n": { "type": "integer" } } },
                "url": format!("http://{}/{path}", self.host), "class": class,
                "timeout_seconds": 2, "secret": SECRET,
            })
        };
        let tools: Vec<Value> = paths.iter().map(tool).collect();
        let file = json!({ "hosts": [self.host], "tools": tools });
        // Fails when another test of this process has installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Setup { tools: endpoints(&file.to_string()).unwrap(), ..Setup::default() }
    }

    /// Waits for this number of requests and returns them.
    async fn wait_for_requests(&self, count: usize) -> Vec<(String, HeaderMap, String)> {
        let deadline = Instant::now() + Duration::from_mins(1);
        while self.requests().len() < count {
            assert!(Instant::now() < deadline, "only {:?}", self.requests());
            sleep(Duration::from_millis(10)).await;
        }
        self.requests()
    }

    fn requests(&self) -> Vec<(String, HeaderMap, String)> {
        self.requests.lock().unwrap().clone()
    }
}

async fn answer(
    State(requests): State<Requests>,
    uri: Uri,
    headers: HeaderMap,
    body: String,
) -> Response {
    let path = uri.path().trim_start_matches('/').to_owned();
    requests.lock().unwrap().push((path.clone(), headers, body));
    match path.as_str() {
        "data" => ([(CONTENT_TYPE, "application/json")], r#"{"sum": 3}"#).into_response(),
        "nothing" => StatusCode::NO_CONTENT.into_response(),
        "broken" => (StatusCode::CONFLICT, format!("sent {}", "x".repeat(3000))).into_response(),
        "redirect" => (StatusCode::FOUND, [(LOCATION, "/data")]).into_response(),
        "image" => ([(CONTENT_TYPE, "image/png")], "PNG").into_response(),
        "full" => vec![b'x'; 1024 * 1024 + 1].into_response(),
        _ => std::future::pending().await,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_a_signed_request_with_its_own_idempotency_key() {
    let endpoint = Endpoint::start().await;
    let script = replies(&[calls("data", json!({ "n": 1 })), says("{{result.0}}")]);
    let app = TestApp::start_with(script, endpoint.setup("effect", &["data"])).await;
    let session = app.session().await;
    let run = session.ask("Sum").await;
    assert_eq!(run["output_text"], r#"{"sum": 3}"#);
    let history = session.history().await;
    let call = history[1]["message"]["content"][0]["id"].as_str().unwrap();
    let [(_, headers, body)] = &endpoint.requests()[..] else { panic!() };
    let header = |name: &str| headers[name].to_str().unwrap();
    let key = format!("{}.{call}", run["id"].as_str().unwrap());
    assert_eq!([header("idempotency-key"), header("webhook-id")], [&*key, &*key]);
    assert_eq!((header("content-type"), body.as_str()), ("application/json", r#"{"n":1}"#));
    let timestamp: i64 = header("webhook-timestamp").parse().unwrap();
    assert!((0..60).contains(&(Timestamp::now().as_second() - timestamp)));
    let secret: WebhookSecret = SECRET.parse().unwrap();
    assert_eq!(header("webhook-signature"), secret.sign(&key, timestamp, body));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_response_of_an_endpoint_is_a_result_or_an_error() {
    let endpoint = Endpoint::start().await;
    let names = ["data", "nothing", "broken", "redirect", "image", "full", "silent"];
    let round = round_of_calls(&names.map(|name| (name, json!({}))));
    let script = replies(&[round, says("Done.")]);
    let app = TestApp::start_with(script, endpoint.setup("pure", &names)).await;
    let session = app.session().await;
    assert_eq!(session.ask("Ask").await["output_text"], "Done.");
    let conflict = format!("sent {}", "x".repeat(1995));
    let failed = |why: &str| (true, format!("Error: {why}"));
    assert_eq!(
        results(&session).await,
        [
            (false, r#"{"sum": 3}"#.to_owned()),
            (false, "Done: the endpoint answered with status 204 and no text.".to_owned()),
            failed(&format!("the endpoint answered with status 409. {conflict}")),
            failed("the endpoint answered with status 302."),
            failed("the endpoint answered with a body that is neither JSON nor text"),
            failed("the body is longer than 1048576 bytes"),
            failed("silent timed out after 2 s"),
        ]
    );
    assert_eq!(endpoint.requests().len(), names.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_input_is_not_sent() {
    let endpoint = Endpoint::start().await;
    let script = replies(&[calls("data", json!({ "n": "one" })), says("{{result.0}}")]);
    let app = TestApp::start_with(script, endpoint.setup("effect", &["data"])).await;
    let expected = "Error: invalid input for data: \"one\" is not of type \"integer\" at /n";
    assert_eq!(app.session().await.ask("Sum").await["output_text"], expected);
    assert!(endpoint.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_with_effects_waits_for_approval_and_a_pure_tool_does_not() {
    let endpoint = Endpoint::start().await;
    for (class, status) in [("effect", "requires_action"), ("pure", "completed")] {
        let policy = Some(OperatorPolicy::default());
        let setup = Setup { permissions: policy, ..endpoint.setup(class, &["data"]) };
        let script = replies(&[calls("data", json!({})), says("Done.")]);
        let app = TestApp::start_with(script, setup).await;
        let session = app.session().await;
        let run = session.ask("Sum").await;
        assert_eq!(run["status"], status);
        for id in pending(&run) {
            assert!(endpoint.requests().is_empty());
            session.allow(id, json!({})).await;
            session.settled(&run).await;
        }
    }
    assert_eq!(endpoint.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_repeated_after_a_crash_has_the_same_idempotency_key() {
    let endpoint = Endpoint::start().await;
    let script = replies(&[calls("silent", json!({})), says("Done.")]);
    let app = TestApp::start_with(script, endpoint.setup("pure", &["silent"])).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Ask" })).await;
    endpoint.wait_for_requests(1).await;
    lose_worker(&app, &run, 1).await;
    let requests = endpoint.wait_for_requests(2).await;
    let keys: Vec<_> = requests.iter().map(|(_, headers, _)| &headers["idempotency-key"]).collect();
    assert_eq!(keys[0], keys[1]);
    assert_eq!(session.settled(&run).await["output_text"], "Done.");
}
