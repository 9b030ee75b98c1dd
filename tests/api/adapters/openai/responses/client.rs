//! Requests for responses.

use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::support::TestApp;

/// A request with this input and other members.
pub(super) fn post(app: &TestApp, input: &Value, others: &Value) -> RequestBuilder {
    let mut body = json!({ "model": "default", "input": input });
    for (name, value) in others.as_object().unwrap() {
        body[name] = value.clone();
    }
    app.post("/openai/v1/responses").json(&body)
}

/// The response to this input.
pub(super) async fn create(app: &TestApp, input: Value, others: Value) -> Value {
    success(post(app, &input, &others)).await
}

/// The response to a message after another response.
pub(super) async fn go_on(app: &TestApp, previous: &Value, input: Value) -> Value {
    create(app, input, json!({ "previous_response_id": previous["id"] })).await
}

/// The stored response.
pub(super) async fn read(app: &TestApp, response: &Value) -> Value {
    success(app.get(&path(response))).await
}

pub(super) fn path(response: &Value) -> String {
    format!("/openai/v1/responses/{}", response["id"].as_str().unwrap())
}

/// The body of a successful reply.
pub(super) async fn success(request: RequestBuilder) -> Value {
    let reply = request.send().await.unwrap();
    let (status, text) = (reply.status(), reply.text().await.unwrap());
    assert_eq!(status, StatusCode::OK, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// The status, the code and the parameter of a refused request.
pub(super) async fn refusal(request: RequestBuilder) -> (u16, String, String) {
    let reply = request.send().await.unwrap();
    assert_eq!(reply.headers()["content-type"], "application/json");
    let status = reply.status().as_u16();
    let body: Value = reply.json().await.unwrap();
    let member = |name: &str| body["error"][name].as_str().unwrap_or_default().to_owned();
    (status, member("code"), member("param"))
}

/// The events of a complete stream, whose form is checked.
pub(super) async fn events(request: RequestBuilder) -> Vec<Value> {
    let reply = request.send().await.unwrap();
    assert_eq!(reply.status(), StatusCode::OK);
    assert_eq!(reply.headers()["content-type"], "text/event-stream");
    parsed(&reply.text().await.unwrap())
}

/// The events in the text of a stream.
pub(super) fn parsed(stream: &str) -> Vec<Value> {
    let mut events: Vec<Value> = Vec::new();
    for frame in stream.split("\n\n").filter(|frame| frame.contains("data: ")) {
        let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
        let event: Value = serde_json::from_str(field("data: ").unwrap()).unwrap();
        assert_eq!(event["type"], field("event: ").unwrap(), "{frame}");
        let number = |event: &Value| event["sequence_number"].as_u64().unwrap();
        assert!(events.last().is_none_or(|last| number(last) < number(&event)), "{stream}");
        events.push(event);
    }
    events
}

/// The types of events, each once in a row, without `response.`.
pub(super) fn kinds(events: &[Value]) -> Vec<&str> {
    let kinds = events.iter().map(|event| event["type"].as_str().unwrap());
    let mut kinds: Vec<&str> =
        kinds.map(|kind| kind.strip_prefix("response.").unwrap_or(kind)).collect();
    kinds.dedup();
    kinds
}

/// The text of a response.
pub(super) fn text(response: &Value) -> String {
    let messages = items(response, "message");
    messages.iter().map(|item| item["content"][0]["text"].as_str().unwrap()).collect()
}

/// The items of a type.
pub(super) fn items<'a>(response: &'a Value, kind: &str) -> Vec<&'a Value> {
    let output = response["output"].as_array().unwrap();
    output.iter().filter(|item| item["type"] == kind).collect()
}

/// The id of the session of a response.
pub(super) fn session_of(response: &Value) -> &str {
    response["conversation"]["id"].as_str().unwrap()
}

pub(super) fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

pub(super) fn output(call_id: &str, text: &str) -> Value {
    json!({ "type": "function_call_output", "call_id": call_id, "output": text })
}
