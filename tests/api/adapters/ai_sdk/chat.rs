//! A conversation of the AI SDK.

use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::support::TestApp;

/// A conversation with an id that the client has made.
pub(super) struct Chat<'a> {
    pub(super) app: &'a TestApp,
    pub(super) id: &'static str,
}

/// A user message of one text.
pub(super) fn user(id: &str, text: &str) -> Value {
    json!({ "id": id, "role": "user", "parts": [{ "type": "text", "text": text }] })
}

/// The types of chunks.
pub(super) fn kinds(chunks: &[Value]) -> Vec<&str> {
    chunks.iter().map(|chunk| chunk["type"].as_str().unwrap()).collect()
}

/// The chunks of one type.
pub(super) fn of_type<'a>(chunks: &'a [Value], kind: &str) -> Vec<&'a Value> {
    chunks.iter().filter(|chunk| chunk["type"] == kind).collect()
}

impl<'a> Chat<'a> {
    pub(super) fn new(app: &'a TestApp) -> Self {
        Self { app, id: "chat-1" }
    }

    pub(super) fn path(&self, rest: &str) -> String {
        format!("/ai-sdk/chat/{}{rest}", self.id)
    }

    /// A request with this body, to which the id of the conversation is added.
    pub(super) fn request(&self, mut body: Value) -> RequestBuilder {
        body["id"] = self.id.into();
        self.app.post("/ai-sdk/chat").json(&body)
    }

    /// Sends a body and returns the chunks of the reply.
    pub(super) async fn send(&self, body: Value) -> Vec<Value> {
        let response = self.request(body).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        chunks(response).await
    }

    /// Sends a new message.
    pub(super) async fn ask(&self, id: &str, text: &str) -> Vec<Value> {
        self.send(json!({ "message": user(id, text) })).await
    }

    /// The status and the code of a refusal.
    pub(super) async fn refusal(&self, body: Value) -> (u16, Value) {
        let response = self.request(body).send().await.unwrap();
        let status = response.status().as_u16();
        let body: Value = response.json().await.unwrap();
        (status, body["code"].clone())
    }

    pub(super) async fn messages(&self) -> Vec<Value> {
        let response = self.app.get(&self.path("/messages")).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        response.json().await.unwrap()
    }

    /// The session that has the id of the conversation now.
    pub(super) async fn session(&self) -> Value {
        let path = format!("/v1/sessions?external_id={}", self.id);
        let page: Value = self.app.get(&path).send().await.unwrap().json().await.unwrap();
        assert_eq!(page["data"].as_array().unwrap().len(), 1);
        page["data"][0].clone()
    }

    /// The runs of a session.
    pub(super) async fn runs(&self, session: &Value) -> Vec<Value> {
        let path = format!("/v1/sessions/{}/runs", session["id"].as_str().unwrap());
        let page: Value = self.app.get(&path).send().await.unwrap().json().await.unwrap();
        page["data"].as_array().unwrap().clone()
    }
}

/// The chunks of a complete stream.
pub(super) async fn chunks(response: Response) -> Vec<Value> {
    parsed(&response.text().await.unwrap())
}

/// The chunks in the text of a complete stream.
pub(super) fn parsed(text: &str) -> Vec<Value> {
    let mut chunks = Vec::new();
    let mut data = text.lines().filter_map(|line| line.strip_prefix("data: ")).peekable();
    while let Some(line) = data.next() {
        if line == "[DONE]" {
            assert_eq!(data.peek(), None, "a chunk follows the end");
            assert!(!text.contains("null"), "an optional member is null: {text}");
            return chunks;
        }
        chunks.push(serde_json::from_str(line).unwrap());
    }
    panic!("the stream has no end: {text}");
}
