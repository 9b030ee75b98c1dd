//! Servers that are asked by streamable HTTP.

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
use twostep::tools::mcp::{Reach, ServerSettings};

use super::fake_server::{app, asks_for, readiness, results, until};

/// A server in this process.
struct Web {
    address: std::net::SocketAddr,
    heard: Arc<Heard>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// What it heard: headers and bodies; and how many of its sessions it has forgotten.
#[derive(Default)]
struct Heard {
    messages: Mutex<Vec<(HeaderMap, Value)>>,
    forgotten: AtomicUsize,
}

impl Heard {
    /// The id of the session that it knows.
    fn session(&self) -> String {
        ["one", "two"][self.forgotten.load(Ordering::Relaxed)].to_owned()
    }

    /// How often it heard of a method.
    fn count(&self, method: &str) -> usize {
        let messages = self.messages.lock().unwrap();
        messages.iter().filter(|(_, message)| message["method"] == method).count()
    }
}

impl Web {
    async fn start() -> Self {
        Self::on("127.0.0.1:0".parse().unwrap()).await
    }

    async fn on(address: std::net::SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (heard, stop) = (Arc::<Heard>::default(), CancellationToken::new());
        let router = Router::new()
            .route("/mcp", post(hear))
            .fallback(elsewhere)
            .with_state(Arc::clone(&heard));
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

/// Notes that somebody came to another place.
async fn elsewhere(State(heard): State<Arc<Heard>>, headers: HeaderMap) -> StatusCode {
    heard.messages.lock().unwrap().push((headers, json!({ "method": "elsewhere" })));
    StatusCode::OK
}

async fn hear(State(heard): State<Arc<Heard>>, headers: HeaderMap, body: Bytes) -> Response {
    let message: Value = serde_json::from_slice(&body).unwrap();
    heard.messages.lock().unwrap().push((headers.clone(), message.clone()));
    if headers.get("mcp-session-id").is_some_and(|id| id.as_bytes() != heard.session().as_bytes()) {
        return StatusCode::NOT_FOUND.into_response();
    }
    let id = &message["id"];
    let told = |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result });
    match message["method"].as_str().unwrap_or_default() {
        "initialize" => {
            let result = json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
                                 "serverInfo": { "name": "web", "version": "1" } });
            ([("mcp-session-id", heard.session())], axum::Json(told(result))).into_response()
        }
        "tools/list" => {
            let tools = [
                "plain", "stream", "hang", "huge", "break", "status", "forget", "drip", "redirect",
                "html", "murmur", "linger", "empty",
            ];
            let tools =
                tools.map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }));
            axum::Json(told(json!({ "tools": tools }))).into_response()
        }
        "tools/call" => {
            let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
            let name = message["params"]["name"].as_str().unwrap();
            if name == "forget" {
                heard.forgotten.store(1, Ordering::Relaxed);
            }
            answer(name, &told, &text).await
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
        "plain" | "forget" => axum::Json(told(text("Plain."))).into_response(),
        // A part of the answer a second, and never the whole.
        "drip" => ([("content-type", "application/json")], again(" ", None)).into_response(),
        "redirect" => Redirect::temporary("/elsewhere").into_response(),
        "html" => Html("<p>Plain.</p>").into_response(),
        "empty" => StatusCode::OK.into_response(),
        // Comments, and never an answer; an answer, and never an end.
        "murmur" => stream(again(": nothing\n\n", None)),
        "linger" => {
            let first = format!("data: {}\n\n", told(text("Lingering.")));
            stream(again(": nothing\n\n", Some(first)))
        }
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

/// A body without end: what comes first, and then a piece now and then.
fn again(piece: &'static str, first: Option<String>) -> Body {
    let ticks = futures::stream::unfold((), async |()| {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Some(((), ()))
    });
    let pieces = ticks.map(move |()| piece.to_owned());
    let all = futures::stream::iter(first).chain(pieces);
    Body::from_stream(all.map(Ok::<_, std::io::Error>))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_the_web_is_asked_with_what_the_operator_named_for_it() {
    let web = Web::start().await;
    let app = app(web.settings(), &asks_for(&["plain", "stream"])).await;
    let session = app.session().await;
    session.ask("Go").await;
    let expected = [("Plain.".to_owned(), false), ("Streamed.".to_owned(), false)];
    assert_eq!(results(&session).await, expected);
    let heard = web.heard.messages.lock().unwrap().clone();
    assert!(heard.iter().all(|(headers, _)| headers["authorization"] == "Bearer sesame"));
    let (headers, call) =
        heard.iter().find(|(_, message)| message["method"] == "tools/call").unwrap();
    assert_eq!(headers["mcp-session-id"], "one");
    assert_eq!(headers["mcp-protocol-version"], "2025-06-18");
    assert_eq!(call["params"]["name"], "plain");
    assert_eq!(call["params"]["arguments"], json!({ "text": "hello" }));
    drop(app);
    web.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
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
    drop(app);
    web.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
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
    let check = json!({ "status": "ok", "detail": "connected, tools: 13" });
    until("it was not connected", async || readiness(&app).await == (true, check.clone())).await;
    let session = app.session().await;
    session.ask("Go on").await;
    assert_eq!(results(&session).await[0], ("Plain.".to_owned(), false));
    drop(app);
    web.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_answer_of_the_web_is_none() {
    let web = Web::start().await;
    let settings = ServerSettings { timeout: Duration::from_secs(2), ..web.settings() };
    let tools = ["drip", "redirect", "html", "plain", "empty", "murmur", "linger", "plain"];
    let app = app(settings, &asks_for(&tools)).await;
    let session = app.session().await;
    let run = session.ask("Go").await;
    assert_eq!(run["status"], "completed");
    let no_response = "Error: no response received from the tool server fake; the call may have \
                       happened all the same";
    let expected = [
        ("Error: mcp__fake__drip timed out after 2 s", true),
        (no_response, true),
        (no_response, true),
        ("Plain.", false),
        (no_response, true),
        ("Error: mcp__fake__murmur timed out after 2 s", true),
        ("Lingering.", false),
        ("Plain.", false),
    ];
    let expected = expected.map(|(text, is_error)| (text.to_owned(), is_error));
    assert_eq!(results(&session).await, expected);
    assert_eq!(web.heard.count("elsewhere"), 0);
    drop(app);
    web.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_the_server_forgets_is_begun_anew_and_no_call_repeated() {
    let web = Web::start().await;
    let app = app(web.settings(), &asks_for(&["forget", "plain"])).await;
    let session = app.session().await;
    session.ask("Go").await;
    let away = "Error: the tool server fake cannot be reached now".to_owned();
    assert_eq!(results(&session).await, [("Plain.".to_owned(), false), (away, true)]);
    assert_eq!(web.heard.count("tools/call"), 2);
    until("it did not begin anew", async || web.heard.count("tools/list") == 2).await;
    assert_eq!(web.heard.count("initialize"), 2);
    let check = json!({ "status": "ok", "detail": "connected, tools: 13" });
    until("it was not connected", async || readiness(&app).await == (true, check.clone())).await;
    drop(app);
    web.stop().await;
}
