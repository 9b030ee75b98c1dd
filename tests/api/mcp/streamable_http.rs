//! Servers that are reached by streamable HTTP.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::post;
use futures::StreamExt as _;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use twostep::tools::mcp::{ServerSettings, ServerTransport};

use super::fake_server::{app, readiness, results, script_calling, wait_until};

/// An MCP server in this process.
struct HttpServer {
    address: std::net::SocketAddr,
    received: Arc<Received>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// The received requests (headers and bodies), and the number of expired protocol sessions.
#[derive(Default)]
struct Received {
    messages: Mutex<Vec<(HeaderMap, Value)>>,
    expired: AtomicUsize,
}

impl Received {
    /// The id of the current protocol session.
    fn session(&self) -> String {
        ["one", "two"][self.expired.load(Ordering::Relaxed)].to_owned()
    }

    /// The number of requests with this method.
    fn count(&self, method: &str) -> usize {
        let messages = self.messages.lock().unwrap();
        messages.iter().filter(|(_, message)| message["method"] == method).count()
    }
}

impl HttpServer {
    async fn start() -> Self {
        Self::on("127.0.0.1:0".parse().unwrap()).await
    }

    async fn on(address: std::net::SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (received, stop) = (Arc::<Received>::default(), CancellationToken::new());
        let router = Router::new()
            .route("/mcp", post(handle))
            .fallback(elsewhere)
            .with_state(Arc::clone(&received));
        let stopped = stop.clone();
        let server =
            axum::serve(listener, router).with_graceful_shutdown(stopped.cancelled_owned());
        let task = TaskTracker::new().spawn(async move { server.await.unwrap() });
        Self { address, received, stop, task }
    }

    fn settings(&self) -> ServerSettings {
        ServerSettings {
            name: "fake".to_owned(),
            transport: ServerTransport::Http {
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

/// Records a request to another path.
async fn elsewhere(State(received): State<Arc<Received>>, headers: HeaderMap) -> StatusCode {
    received.messages.lock().unwrap().push((headers, json!({ "method": "elsewhere" })));
    StatusCode::OK
}

/// Handles a message to the MCP endpoint.
async fn handle(
    State(received): State<Arc<Received>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let message: Value = serde_json::from_slice(&body).unwrap();
    received.messages.lock().unwrap().push((headers.clone(), message.clone()));
    if headers
        .get("mcp-session-id")
        .is_some_and(|id| id.as_bytes() != received.session().as_bytes())
    {
        return StatusCode::NOT_FOUND.into_response();
    }
    let id = &message["id"];
    let respond = |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result });
    match message["method"].as_str().unwrap_or_default() {
        "initialize" => {
            let result = json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
                                 "serverInfo": { "name": "web", "version": "1" } });
            ([("mcp-session-id", received.session())], axum::Json(respond(result))).into_response()
        }
        "tools/list" => {
            let tools = [
                "plain",
                "stream",
                "hang",
                "huge",
                "broken_body",
                "status_500",
                "expire_session",
                "slow_body",
                "redirect",
                "html",
                "only_comments",
                "open_stream",
                "empty_body",
            ];
            let tools =
                tools.map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }));
            axum::Json(respond(json!({ "tools": tools }))).into_response()
        }
        "tools/call" => {
            let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
            let name = message["params"]["name"].as_str().unwrap();
            if name == "expire_session" {
                received.expired.store(1, Ordering::Relaxed);
            }
            answer(name, &respond, &text).await
        }
        "ping" => axum::Json(respond(json!({}))).into_response(),
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

async fn answer(
    tool: &str,
    respond: &impl Fn(Value) -> Value,
    text: &impl Fn(&str) -> Value,
) -> Response {
    let stream = |body: Body| ([("content-type", "text/event-stream")], body).into_response();
    match tool {
        "plain" | "expire_session" => axum::Json(respond(text("Plain."))).into_response(),
        // A byte every 100 ms, without end.
        "slow_body" => {
            ([("content-type", "application/json")], endless_body(" ", None)).into_response()
        }
        "redirect" => Redirect::temporary("/elsewhere").into_response(),
        "html" => Html("<p>Plain.</p>").into_response(),
        "empty_body" => StatusCode::OK.into_response(),
        // Comments without a response; a response in a stream that stays open.
        "only_comments" => stream(endless_body(": nothing\n\n", None)),
        "open_stream" => {
            let first = format!("data: {}\n\n", respond(text("Open.")));
            stream(endless_body(": nothing\n\n", Some(first)))
        }
        "stream" => stream(format!("data: {}\n\n", respond(text("Streamed."))).into()),
        "hang" => std::future::pending().await,
        "huge" => ([("content-type", "application/json")], vec![b'x'; 17 << 20]).into_response(),
        "broken_body" => {
            let broken = futures::stream::iter([Err::<Bytes, _>(std::io::Error::other("broken"))]);
            ([("content-type", "application/json")], Body::from_stream(broken)).into_response()
        }
        "status_500" => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        other => panic!("unknown tool {other}"),
    }
}

/// A body without end: the first piece, and then this piece every 100 ms.
fn endless_body(piece: &'static str, first: Option<String>) -> Body {
    let ticks = futures::stream::unfold((), async |()| {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Some(((), ()))
    });
    let pieces = ticks.map(move |()| piece.to_owned());
    let all = futures::stream::iter(first).chain(pieces);
    Body::from_stream(all.map(Ok::<_, std::io::Error>))
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_have_the_configured_headers_and_the_protocol_session() {
    let server = HttpServer::start().await;
    let app = app(server.settings(), &script_calling(&["plain", "stream"])).await;
    let session = app.session().await;
    session.ask("Go").await;
    let expected = [("Plain.".to_owned(), false), ("Streamed.".to_owned(), false)];
    assert_eq!(results(&session).await, expected);
    let received = server.received.messages.lock().unwrap().clone();
    assert!(received.iter().all(|(headers, _)| headers["authorization"] == "Bearer sesame"));
    let (headers, call) =
        received.iter().find(|(_, message)| message["method"] == "tools/call").unwrap();
    assert_eq!(headers["mcp-session-id"], "one");
    assert_eq!(headers["mcp-protocol-version"], "2025-06-18");
    assert_eq!(call["params"]["name"], "plain");
    assert_eq!(call["params"]["arguments"], json!({ "text": "hello" }));
    drop(app);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_failure_of_a_call_is_a_result() {
    let server = HttpServer::start().await;
    let app = app(
        server.settings(),
        &script_calling(&["hang", "huge", "broken_body", "status_500", "plain"]),
    )
    .await;
    let session = app.session().await;
    let run = session.ask("Go").await;
    assert_eq!(run["status"], "completed");
    let no_response = "Error: no response received from the tool server fake; the call may have \
                       been executed";
    let expected = [
        ("Error: mcp__fake__hang timed out after 6 s", true),
        (no_response, true),
        (no_response, true),
        (no_response, true),
        ("Plain.", false),
    ];
    let expected = expected.map(|(text, is_error)| (text.to_owned(), is_error));
    assert_eq!(results(&session).await, expected);
    drop(app);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_reconnected_after_an_outage() {
    let server = HttpServer::start().await;
    let address = server.address;
    let app = app(server.settings(), &script_calling(&["plain", "plain"])).await;
    server.stop().await;
    let session = app.session().await;
    let run = session.ask("Go").await;
    assert_eq!(run["status"], "completed");
    let unreachable = "Error: the tool server fake is unreachable";
    assert_eq!(
        results(&session).await,
        [(unreachable.to_owned(), true), (unreachable.to_owned(), true)]
    );
    let check = json!({ "status": "warning", "detail": "not connected" });
    wait_until("the service still reports the server as connected", async || {
        readiness(&app).await == (true, check.clone())
    })
    .await;
    let server = HttpServer::on(address).await;
    let check = json!({ "status": "ok", "detail": "connected, tools: 13" });
    wait_until("the server was not reconnected", async || {
        readiness(&app).await == (true, check.clone())
    })
    .await;
    let session = app.session().await;
    session.ask("Go on").await;
    assert_eq!(results(&session).await[0], ("Plain.".to_owned(), false));
    drop(app);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_http_responses_fail_their_calls() {
    let server = HttpServer::start().await;
    let settings = ServerSettings { timeout: Duration::from_secs(2), ..server.settings() };
    let tools = [
        "slow_body",
        "redirect",
        "html",
        "plain",
        "empty_body",
        "only_comments",
        "open_stream",
        "plain",
    ];
    let app = app(settings, &script_calling(&tools)).await;
    let session = app.session().await;
    let run = session.ask("Go").await;
    assert_eq!(run["status"], "completed");
    let no_response = "Error: no response received from the tool server fake; the call may have \
                       been executed";
    let expected = [
        ("Error: mcp__fake__slow_body timed out after 2 s", true),
        (no_response, true),
        (no_response, true),
        ("Plain.", false),
        (no_response, true),
        ("Error: mcp__fake__only_comments timed out after 2 s", true),
        ("Open.", false),
        ("Plain.", false),
    ];
    let expected = expected.map(|(text, is_error)| (text.to_owned(), is_error));
    assert_eq!(results(&session).await, expected);
    assert_eq!(server.received.count("elsewhere"), 0);
    drop(app);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_protocol_session_is_replaced_and_no_call_is_repeated() {
    let server = HttpServer::start().await;
    let app = app(server.settings(), &script_calling(&["expire_session", "plain"])).await;
    let session = app.session().await;
    session.ask("Go").await;
    let unreachable = "Error: the tool server fake is unreachable".to_owned();
    assert_eq!(results(&session).await, [("Plain.".to_owned(), false), (unreachable, true)]);
    assert_eq!(server.received.count("tools/call"), 2);
    wait_until("no new protocol session was started", async || {
        server.received.count("tools/list") == 2
    })
    .await;
    assert_eq!(server.received.count("initialize"), 2);
    let check = json!({ "status": "ok", "detail": "connected, tools: 13" });
    wait_until("the server was not reconnected", async || {
        readiness(&app).await == (true, check.clone())
    })
    .await;
    drop(app);
    server.stop().await;
}
