//! Servers that are asked by streamable HTTP.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use twostep::tools::mcp::{Reach, ServerSettings};

use super::fake::{app, asks_for, readiness, results, until};

/// A server in this process.
struct Web {
    address: std::net::SocketAddr,
    heard: Heard,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// What it heard: headers and bodies.
type Heard = Arc<Mutex<Vec<(HeaderMap, Value)>>>;

impl Web {
    async fn start() -> Self {
        Self::on("127.0.0.1:0".parse().unwrap()).await
    }

    async fn on(address: std::net::SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (heard, stop) = (Heard::default(), CancellationToken::new());
        let router = Router::new().route("/mcp", post(hear)).with_state(Arc::clone(&heard));
        let stopped = stop.clone();
        let server =
            axum::serve(listener, router).with_graceful_shutdown(stopped.cancelled_owned());
        let task = TaskTracker::new().spawn(async move { server.await.unwrap() });
        Self { address, heard, stop, task }
    }

    fn settings(&self) -> ServerSettings {
        ServerSettings {
            name: "fake".to_owned(),
            reach: Reach::Http {
                url: format!("http://{}/mcp", self.address).parse().unwrap(),
                headers: HeaderMap::from_iter([(
                    http::header::AUTHORIZATION,
                    HeaderValue::from_static("Bearer sesame"),
                )]),
            },
            is_trusted: false,
            timeout: Duration::from_secs(6),
            only: None,
            withheld: Vec::new(),
        }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

async fn hear(State(heard): State<Heard>, headers: HeaderMap, body: Bytes) -> Response {
    let message: Value = serde_json::from_slice(&body).unwrap();
    heard.lock().unwrap().push((headers, message.clone()));
    let id = &message["id"];
    let told = |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result });
    match message["method"].as_str().unwrap_or_default() {
        "initialize" => {
            let result = json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
                                 "serverInfo": { "name": "web", "version": "1" } });
            ([("mcp-session-id", "one")], axum::Json(told(result))).into_response()
        }
        "tools/list" => {
            let tools = ["plain", "stream", "hang", "huge", "break", "status"]
                .map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }));
            axum::Json(told(json!({ "tools": tools }))).into_response()
        }
        "tools/call" => {
            let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
            answer(message["params"]["name"].as_str().unwrap(), &told, &text).await
        }
        "ping" => axum::Json(told(json!({}))).into_response(),
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

async fn answer(
    tool: &str,
    told: &impl Fn(Value) -> Value,
    text: &impl Fn(&str) -> Value,
) -> Response {
    let stream = |body: Body| ([("content-type", "text/event-stream")], body).into_response();
    match tool {
        "plain" => axum::Json(told(text("Plain."))).into_response(),
        "stream" => stream(format!("data: {}\n\n", told(text("Streamed."))).into()),
        "hang" => std::future::pending().await,
        "huge" => ([("content-type", "application/json")], vec![b'x'; 17 << 20]).into_response(),
        "break" => {
            let broken = futures::stream::iter([Err::<Bytes, _>(std::io::Error::other("broken"))]);
            ([("content-type", "application/json")], Body::from_stream(broken)).into_response()
        }
        "status" => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        other => panic!("there is no {other}"),
    }
}

#[tokio::test]
async fn a_server_of_the_web_is_asked_with_what_the_operator_named_for_it() {
    let web = Web::start().await;
    let app = app(web.settings(), &asks_for(&["plain", "stream"])).await;
    let session = app.session().await;
    session.ask("Go").await;
    let expected = [("Plain.".to_owned(), false), ("Streamed.".to_owned(), false)];
    assert_eq!(results(&session).await, expected);
    let heard = web.heard.lock().unwrap().clone();
    assert!(heard.iter().all(|(headers, _)| headers["authorization"] == "Bearer sesame"));
    let (headers, call) =
        heard.iter().find(|(_, message)| message["method"] == "tools/call").unwrap();
    assert_eq!(headers["mcp-session-id"], "one");
    assert_eq!(headers["mcp-protocol-version"], "2025-06-18");
    assert_eq!(call["params"]["name"], "plain");
    assert_eq!(call["params"]["arguments"], json!({ "text": "hello" }));
    app.finish().await;
    web.stop().await;
}

#[tokio::test]
async fn whatever_goes_wrong_with_it_is_a_result() {
    let web = Web::start().await;
    let app = app(web.settings(), &asks_for(&["hang", "huge", "break", "status", "plain"])).await;
    let session = app.session().await;
    let run = session.ask("Go").await;
    assert_eq!(run["status"], "completed");
    let no_response = "Error: no response received from the tool server fake; the call may have \
                       happened all the same";
    let expected = [
        ("Error: mcp__fake__hang timed out after 6 s", true),
        (no_response, true),
        (no_response, true),
        (no_response, true),
        ("Plain.", false),
    ];
    let expected = expected.map(|(text, is_error)| (text.to_owned(), is_error));
    assert_eq!(results(&session).await, expected);
    app.finish().await;
    web.stop().await;
}

#[tokio::test]
async fn one_that_goes_away_is_connected_again_when_it_is_back() {
    let web = Web::start().await;
    let address = web.address;
    let app = app(web.settings(), &asks_for(&["plain", "plain"])).await;
    web.stop().await;
    let session = app.session().await;
    let run = session.ask("Go").await;
    assert_eq!(run["status"], "completed");
    let away = "Error: the tool server fake cannot be reached now";
    assert_eq!(results(&session).await, [(away.to_owned(), true), (away.to_owned(), true)]);
    let check = json!({ "status": "warning", "detail": "not connected" });
    until("it was not missed", async || readiness(&app).await == (true, check.clone())).await;
    let web = Web::on(address).await;
    let check = json!({ "status": "ok", "detail": "connected, tools: 6" });
    until("it was not connected", async || readiness(&app).await == (true, check.clone())).await;
    let session = app.session().await;
    session.ask("Go on").await;
    assert_eq!(results(&session).await[0], ("Plain.".to_owned(), false));
    app.finish().await;
    web.stop().await;
}
