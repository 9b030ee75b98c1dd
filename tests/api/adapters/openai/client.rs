//! Requests for completions.

use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::support::TestApp;

pub(super) fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

pub(super) fn assistant(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

/// A request with these messages and other members.
pub(super) fn post(app: &TestApp, messages: &[Value], others: Value) -> RequestBuilder {
    let mut body = json!({ "model": "default", "messages": messages });
    if let Value::Object(others) = others {
        for (name, value) in others {
            body[name] = value;
        }
    }
    app.post("/openai/v1/chat/completions").json(&body)
}

/// The completion for these messages, with the session as `session`.
pub(super) async fn complete(app: &TestApp, messages: &[Value], others: Value) -> Value {
    let response = post(app, messages, others).send().await.unwrap();
    let session = session_of(&response);
    let (status, text) = (response.status(), response.text().await.unwrap());
    assert_eq!(status, StatusCode::OK, "{text}");
    let mut completion: Value = serde_json::from_str(&text).unwrap();
    completion["session"] = session.into();
    completion
}

/// The id of the session of a response; empty if it has none.
pub(super) fn session_of(response: &Response) -> String {
    let id = response.headers().get("x-session-id");
    id.map(|id| id.to_str().unwrap().to_owned()).unwrap_or_default()
}

/// The text of a completion.
pub(super) fn text(completion: &Value) -> &str {
    completion["choices"][0]["message"]["content"].as_str().unwrap_or_default()
}

/// The chunks in the text of a complete stream.
pub(super) fn chunks(stream: &str) -> Vec<Value> {
    let data: Vec<&str> = stream.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let (last, chunks) = data.split_last().unwrap();
    assert_eq!(*last, "[DONE]", "{stream}");
    // Named events break clients.
    assert!(stream.lines().all(|line| !line.starts_with("event:")), "{stream}");
    chunks.iter().map(|chunk| serde_json::from_str(chunk).unwrap()).collect()
}

/// The runs of a session.
pub(super) async fn runs(app: &TestApp, session: &str) -> Vec<Value> {
    let path = format!("/v1/sessions/{session}/runs");
    let page: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
    page["data"].as_array().unwrap().clone()
}
