//! Tools that the operator declares, and the endpoints behind them.

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

use super::{many, results};
use crate::faults::takeover::lose_worker;
use crate::support::{Setup, TestApp, calls, pending, replies, says};

const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

type Asked = Arc<Mutex<Vec<(String, HeaderMap, String)>>>;

/// A server that notes what it was asked.
struct Desk {
    host: String,
    asked: Asked,
    _task: AbortOnDropHandle<()>,
}

impl Desk {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let asked = Asked::default();
        let router = Router::new().fallback(any(answer)).with_state(Arc::clone(&asked));
        let serving = async { axum::serve(listener, router).await.unwrap() };
        Self { host, asked, _task: AbortOnDropHandle::new(TaskTracker::new().spawn(serving)) }
    }

    /// A service with a tool for each of these paths, of this class.
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
        // A second test of the same process finds it installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Setup { tools: endpoints(&file.to_string()).unwrap(), ..Setup::default() }
    }

    /// What it was asked, once there is so much of it.
    async fn asked_so_often(&self, count: usize) -> Vec<(String, HeaderMap, String)> {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.asked().len() < count {
            assert!(Instant::now() < deadline, "{:?} is all", self.asked());
            sleep(Duration::from_millis(10)).await;
        }
        self.asked()
    }

    fn asked(&self) -> Vec<(String, HeaderMap, String)> {
        self.asked.lock().unwrap().clone()
    }
}

async fn answer(
    State(asked): State<Asked>,
    uri: Uri,
    headers: HeaderMap,
    body: String,
) -> Response {
    let path = uri.path().trim_start_matches('/').to_owned();
    asked.lock().unwrap().push((path.clone(), headers, body));
    match path.as_str() {
        "data" => ([(CONTENT_TYPE, "application/json")], r#"{"sum": 3}"#).into_response(),
        "nothing" => StatusCode::NO_CONTENT.into_response(),
        "broken" => (StatusCode::CONFLICT, format!("sent {}", "x".repeat(3000))).into_response(),
        "away" => (StatusCode::FOUND, [(LOCATION, "/data")]).into_response(),
        "image" => ([(CONTENT_TYPE, "image/png")], "PNG").into_response(),
        "full" => vec![b'x'; 1024 * 1024 + 1].into_response(),
        _ => std::future::pending().await,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_a_signed_request_with_a_key_of_its_own() {
    let desk = Desk::start().await;
    let script = replies(&[calls("data", json!({ "n": 1 })), says("{{result.0}}")]);
    let app = TestApp::start_with(script, desk.setup("effect", &["data"])).await;
    let session = app.session().await;
    let run = session.ask("Sum").await;
    assert_eq!(run["output_text"], r#"{"sum": 3}"#);
    let history = session.history().await;
    let call = history[1]["message"]["content"][0]["id"].as_str().unwrap();
    let [(_, headers, body)] = &desk.asked()[..] else { panic!() };
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
async fn what_an_endpoint_answers_is_a_result_or_an_error() {
    let desk = Desk::start().await;
    let names = ["data", "nothing", "broken", "away", "image", "full", "silent"];
    let asks = many(&names.map(|name| (name, json!({}))));
    let script = replies(&[asks, says("Done.")]);
    let app = TestApp::start_with(script, desk.setup("pure", &names)).await;
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
            failed("the endpoint answered with something else than JSON or text"),
            failed("the body is longer than 1048576 bytes"),
            failed("silent timed out after 2 s"),
        ]
    );
    assert_eq!(desk.asked().len(), names.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_does_not_fit_is_not_sent() {
    let desk = Desk::start().await;
    let script = replies(&[calls("data", json!({ "n": "one" })), says("{{result.0}}")]);
    let app = TestApp::start_with(script, desk.setup("effect", &["data"])).await;
    let expected = "Error: invalid input for data: \"one\" is not of type \"integer\" at /n";
    assert_eq!(app.session().await.ask("Sum").await["output_text"], expected);
    assert!(desk.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_with_effects_waits_for_somebody_and_one_without_does_not() {
    let desk = Desk::start().await;
    for (class, status) in [("effect", "requires_action"), ("pure", "completed")] {
        let policy = Some(OperatorPolicy::default());
        let setup = Setup { permissions: policy, ..desk.setup(class, &["data"]) };
        let script = replies(&[calls("data", json!({})), says("Done.")]);
        let app = TestApp::start_with(script, setup).await;
        let session = app.session().await;
        let run = session.ask("Sum").await;
        assert_eq!(run["status"], status);
        for id in pending(&run) {
            assert!(desk.asked().is_empty());
            session.allow(id, json!({})).await;
            session.settled(&run).await;
        }
    }
    assert_eq!(desk.asked().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_repeated_after_a_crash_has_the_key_that_it_had() {
    let desk = Desk::start().await;
    let script = replies(&[calls("silent", json!({})), says("Done.")]);
    let app = TestApp::start_with(script, desk.setup("pure", &["silent"])).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Ask" })).await;
    desk.asked_so_often(1).await;
    lose_worker(&app, &run, 1).await;
    let asked = desk.asked_so_often(2).await;
    let keys: Vec<_> = asked.iter().map(|(_, headers, _)| &headers["idempotency-key"]).collect();
    assert_eq!(keys[0], keys[1]);
    assert_eq!(session.settled(&run).await["output_text"], "Done.");
}
