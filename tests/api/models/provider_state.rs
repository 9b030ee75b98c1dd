//! Servers of Chat Completions that require their own reasoning and signatures back, and servers that
//! refuse those of others.

use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::support::{Program, TestDatabase, binary, client_with, data_dir, database};

/// A server that replies to its requests in this order.
#[derive(Clone)]
struct ChatServer {
    replies: Vec<Vec<Value>>,
    /// What is wrong with the messages of a request.
    check: fn(&[Value]) -> Option<&'static str>,
    received: Arc<Mutex<Vec<Value>>>,
}

impl ChatServer {
    fn new(replies: &[Vec<Value>], check: fn(&[Value]) -> Option<&'static str>) -> Self {
        Self { replies: replies.to_vec(), check, received: Arc::default() }
    }

    /// Serves, and returns the base URL.
    async fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let routes = Router::new().route("/v1/chat/completions", post(complete));
        TaskTracker::new()
            .spawn(axum::serve(listener, routes.with_state(self.clone())).into_future());
        url
    }

    /// The first reply in the messages of the request with this number.
    fn first_reply(&self, request: usize) -> Value {
        let received = self.received.lock().unwrap();
        let mut messages = received[request]["messages"].as_array().unwrap().iter();
        messages.find(|message| message["role"] == "assistant").unwrap().clone()
    }
}

async fn complete(State(server): State<ChatServer>, Json(body): Json<Value>) -> Response {
    let messages = body["messages"].as_array().unwrap();
    let accepted = {
        let mut received = server.received.lock().unwrap();
        received.push(body.clone());
        messages.iter().filter(|message| message["role"] == "assistant").count()
    };
    if let Some(why) = (server.check)(messages) {
        let error = json!({ "message": why, "type": "invalid_request_error", "param": null });
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
    }
    let chunks = server.replies[accepted].iter().map(|chunk| format!("data: {chunk}\n\n"));
    let stream: String = chunks.chain(["data: [DONE]\n\n".to_owned()]).collect();
    ([(CONTENT_TYPE, "text/event-stream")], stream).into_response()
}

/// A chunk of the only choice.
fn chunk(delta: &Value) -> Value {
    json!({ "choices": [{ "delta": delta }] })
}

fn ends(reason: &str) -> Value {
    json!({ "choices": [{ "delta": {}, "finish_reason": reason }] })
}

fn reads(id: &str, more: &Value) -> Value {
    let function = json!({ "name": "read_file", "arguments": r#"{"path":"a.txt"}"# });
    let mut call = json!({ "index": 0, "id": id, "type": "function", "function": function });
    call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    chunk(&json!({ "tool_calls": [call] }))
}

/// A service with this server, one session in it, and what both need.
struct Service {
    program: Program,
    session: String,
    database: Arc<TestDatabase>,
    folders: [Arc<TempDir>; 2],
}

impl Service {
    async fn start(server: &ChatServer) -> Self {
        let workspace = Arc::new(tempfile::tempdir().unwrap());
        std::fs::write(workspace.path().join("a.txt"), "hello").unwrap();
        let (database, data) = (Arc::new(database().await), Arc::new(data_dir()));
        let folders = [workspace, data];
        let program = serve(server, &database, &folders).await;
        let sessions = format!("{}/v1/sessions", program.url);
        let session: Value =
            client_with(None).post(sessions).send().await.unwrap().json().await.unwrap();
        let session = session["id"].as_str().unwrap().to_owned();
        Self { program, session, database, folders }
    }

    /// The same service with another server.
    async fn with_server(self, server: &ChatServer) -> Self {
        let Self { program, session, database, folders } = self;
        program.terminate().await;
        let program = serve(server, &database, &folders).await;
        Self { program, session, database, folders }
    }

    /// The answer to a message.
    async fn ask(&self, text: &str) -> Value {
        let url = format!("{}/v1/sessions/{}/messages", self.program.url, self.session);
        let message = json!({ "content": text });
        let post = client_with(None).post(url).header("prefer", "wait=30").json(&message);
        let run: Value = post.send().await.unwrap().json().await.unwrap();
        assert_eq!(run["status"], "completed", "{run}");
        run["output_text"].clone()
    }

    /// The texts of the reasoning that clients see.
    async fn thinking(&self) -> Vec<Value> {
        let url = format!("{}/v1/sessions/{}/events?limit=200", self.program.url, self.session);
        let page: Value = client_with(None).get(url).send().await.unwrap().json().await.unwrap();
        let events = page["data"].as_array().unwrap();
        let thinking = events.iter().filter(|event| event["type"] == "agent.thinking");
        thinking.map(|event| event["content"][0]["text"].clone()).collect()
    }
}

async fn serve(
    server: &ChatServer,
    database: &TestDatabase,
    folders: &[Arc<TempDir>; 2],
) -> Program {
    let mut command = binary(&["serve", "--provider", "openai", "--model", "m"]);
    command.args(["--bind", "127.0.0.1:0", "--openai-base-url", &server.start().await]);
    command.arg("--shared-workspace").arg(folders[0].path());
    command.arg("--data-dir").arg(folders[1].path()).env("DATABASE_URL", database.url());
    Program::serve(command).await
}

/// As Gemini does: every call needs its signature.
fn lacks_signature(messages: &[Value]) -> Option<&'static str> {
    let calls = messages.iter().filter_map(|message| message["tool_calls"].as_array());
    let is_unsigned = |call: &Value| call["extra_content"]["google"]["thought_signature"] != "s+/1";
    calls.flatten().any(is_unsigned).then_some("Function call is missing a thought_signature")
}

#[tokio::test(flavor = "multi_thread")]
async fn signatures_of_calls_are_sent_back_to_their_server() {
    let signed = json!({ "extra_content": { "google": { "thought_signature": "s+/1" } } });
    let replies = [
        vec![reads("call_1", &signed), ends("tool_calls")],
        vec![chunk(&json!({ "content": "It says hello." })), ends("STOP")],
        vec![chunk(&json!({ "content": "Still hello." })), ends("stop")],
    ];
    let server = ChatServer::new(&replies, lacks_signature);
    let service = Service::start(&server).await;
    assert_eq!(service.ask("Read it").await, "It says hello.");
    assert_eq!(service.ask("And now?").await, "Still hello.");
}

/// As `DeepSeek` does: every reply needs its reasoning.
fn lacks_reasoning(messages: &[Value]) -> Option<&'static str> {
    let mut replies = messages.iter().filter(|message| message["role"] == "assistant");
    let lacks = replies.any(|reply| reply["reasoning_content"].is_null());
    lacks.then_some("The `reasoning_content` in the thinking mode must be passed back to the API.")
}

#[tokio::test(flavor = "multi_thread")]
async fn reasoning_is_shown_and_sent_back_to_its_server() {
    let thinks = |text: &str| chunk(&json!({ "content": null, "reasoning_content": text }));
    let replies = [
        vec![
            thinks("I had "),
            thinks("better look."),
            reads("call_1", &json!({})),
            ends("tool_calls"),
        ],
        vec![thinks("Easy."), chunk(&json!({ "content": "It says hello." })), ends("stop")],
        vec![thinks("Again."), chunk(&json!({ "content": "Still hello." })), ends("stop")],
    ];
    let server = ChatServer::new(&replies, lacks_reasoning);
    let service = Service::start(&server).await;
    assert_eq!(service.ask("Read it").await, "It says hello.");
    assert_eq!(service.ask("And now?").await, "Still hello.");
    assert_eq!(server.first_reply(2)["reasoning_content"], "I had better look.");
    assert_eq!(service.thinking().await, ["I had better look.", "Easy.", "Again."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn reasoning_in_parts_of_the_content_is_sent_back_in_parts() {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let thinking = |part: &str| json!({ "type": "thinking", "thinking": [text(part)] });
    let replies = [
        vec![
            chunk(&json!({ "content": [thinking("Let me ")] })),
            chunk(&json!({ "content": [thinking("see."), text("Hi ")] })),
            chunk(&json!({ "content": "there." })),
            ends("stop"),
        ],
        vec![chunk(&json!({ "content": "Bye." })), ends("eos")],
    ];
    let server = ChatServer::new(&replies, |_| None);
    let service = Service::start(&server).await;
    assert_eq!(service.ask("Hello").await, "Hi there.");
    assert_eq!(service.ask("Goodbye").await, "Bye.");
    let expected = json!([thinking("Let me see."), text("Hi there.")]);
    assert_eq!(server.first_reply(1)["content"], expected);
}

/// As servers with a closed schema do.
fn has_unknown_member(messages: &[Value]) -> Option<&'static str> {
    let known = ["role", "content", "tool_calls", "tool_call_id"];
    let members = messages.iter().filter_map(Value::as_object).flat_map(|object| object.keys());
    let has_unknown = members.map(String::as_str).any(|name| !known.contains(&name));
    has_unknown.then_some("property 'messages.1.reasoning_content' is unsupported")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_the_reasoning_of_another_one_gets_the_session_without_it() {
    let thinks = chunk(&json!({ "reasoning_content": "Hm." }));
    let first = vec![thinks, chunk(&json!({ "content": "One." })), ends("stop")];
    let service = Service::start(&ChatServer::new(&[first], |_| None)).await;
    assert_eq!(service.ask("First").await, "One.");

    let second = vec![chunk(&json!({ "content": "Two." })), ends("stop")];
    let third = vec![chunk(&json!({ "content": "Three." })), ends("stop")];
    let server = ChatServer::new(&[vec![], second, third], has_unknown_member);
    let service = service.with_server(&server).await;
    assert_eq!(service.ask("Second").await, "Two.");
    assert_eq!(service.ask("Third").await, "Three.");
    let requests = server.received.lock().unwrap().len();
    assert_eq!(requests, 3, "one request is refused, and later ones are without the reasoning");
}

#[tokio::test(flavor = "multi_thread")]
async fn reasoning_between_tags_is_no_part_of_the_answer() {
    let pieces = ["<thi", "nk>Let me see.</th", "ink>\n\nHello"];
    let mut reply: Vec<Value> =
        pieces.iter().map(|piece| chunk(&json!({ "content": piece }))).collect();
    reply.push(ends("stop"));
    let again = vec![chunk(&json!({ "content": "Bye" })), ends("stop")];
    let server = ChatServer::new(&[reply, again], |_| None);
    let service = Service::start(&server).await;
    assert_eq!(service.ask("Hi").await, "Hello");
    assert_eq!(service.thinking().await, ["Let me see."]);
    assert_eq!(service.ask("Goodbye").await, "Bye");
    assert_eq!(server.first_reply(1), json!({ "role": "assistant", "content": "Hello" }));
}
