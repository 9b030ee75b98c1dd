//! Requests as the SDKs send them.

use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use sse_stream::{Sse, SseByteStream};
use tokio::time::timeout;

use crate::support::TestApp;

/// A client of a service.
pub(super) struct Sdk<'a> {
    pub(super) app: &'a TestApp,
    client: Client,
}

/// A user message of one text.
pub(super) fn user(text: &str) -> Value {
    json!({ "type": "user.message", "content": [{ "type": "text", "text": text }] })
}

/// The types of events.
pub(super) fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

/// The error of a refused request, whose form is checked.
pub(super) async fn refused(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    assert_eq!(response.headers()["content-type"], "application/json");
    let request_id = response.headers()["request-id"].to_str().unwrap().to_owned();
    assert_eq!(response.headers()["x-request-id"], *request_id);
    let body: Value = response.json().await.unwrap();
    assert_eq!((&body["type"], &body["request_id"]), (&json!("error"), &json!(request_id)));
    (status, body["error"].clone())
}

impl<'a> Sdk<'a> {
    pub(super) fn new(app: &'a TestApp) -> Self {
        Self { app, client: app.client.clone() }
    }

    /// The same client with the headers of this one.
    pub(super) fn with(&self, client: Client) -> Self {
        Self { app: self.app, client }
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.client.post(self.app.url(&format!("/anthropic/v1{path}"))).json(body)
    }

    pub(super) fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(self.app.url(&format!("/anthropic/v1{path}")))
    }

    pub(super) fn delete(&self, path: &str) -> RequestBuilder {
        self.client.delete(self.app.url(&format!("/anthropic/v1{path}")))
    }

    /// The body of a successful response.
    pub(super) async fn success(request: RequestBuilder) -> Value {
        let response = request.send().await.unwrap();
        let status = response.status();
        let body: Value = response.json().await.unwrap();
        assert_eq!(status, 200, "{body}");
        body
    }

    pub(super) async fn create(&self, path: &str, body: Value) -> Value {
        Self::success(self.post(path, &body)).await
    }

    pub(super) async fn read(&self, path: &str) -> Value {
        Self::success(self.get(path)).await
    }

    /// A new agent with these tools.
    pub(super) async fn agent(&self, tools: Value) -> String {
        let body = json!({ "name": "Desk", "model": "simulator", "tools": tools });
        id(&self.create("/agents", body).await)
    }

    /// A new session of a new agent with these tools.
    pub(super) async fn session(&self, tools: Value) -> String {
        let agent = self.agent(tools).await;
        id(&self
            .create("/sessions", json!({ "agent": agent, "environment_id": "env_default" }))
            .await)
    }

    /// Sends events and returns them as they are stored.
    pub(super) async fn send(&self, session: &str, events: Value) -> Vec<Value> {
        let body = json!({ "events": events });
        let sent = self.create(&format!("/sessions/{session}/events"), body).await;
        sent["data"].as_array().unwrap().clone()
    }

    /// Opens a stream as the SDKs do, which accept JSON only.
    pub(super) async fn stream(&self, session: &str, query: &str, last: Option<i64>) -> SdkStream {
        let mut request = self.get(&format!("/sessions/{session}/events/stream{query}"));
        request = request.header("accept", "application/json");
        if let Some(last) = last {
            request = request.header("last-event-id", last.to_string());
        }
        SdkStream::new(request.send().await.unwrap())
    }

    /// All items of a list.
    pub(super) async fn list(&self, path: &str) -> Vec<Value> {
        let mut all = Vec::new();
        let mut next = None::<String>;
        loop {
            let separator = if path.contains('?') { '&' } else { '?' };
            let page = next.map(|page| format!("{separator}page={page}")).unwrap_or_default();
            let mut page = self.read(&format!("{path}{page}")).await;
            all.append(page["data"].as_array_mut().unwrap());
            next = page["next_page"].as_str().map(str::to_owned);
            if next.is_none() {
                return all;
            }
        }
    }

    pub(super) async fn events(&self, session: &str) -> Vec<Value> {
        self.list(&format!("/sessions/{session}/events?limit=3")).await
    }
}

/// The id of a resource.
pub(super) fn id(resource: &Value) -> String {
    resource["id"].as_str().unwrap().to_owned()
}

/// An open stream.
pub(super) struct SdkStream {
    events: Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>,
    /// The number of the last event.
    pub(super) last: Option<i64>,
}

impl SdkStream {
    fn new(response: Response) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let events = SseByteStream::new(response.bytes_stream());
        Self { events: Box::pin(events), last: None }
    }

    /// The next event; none at the regular end of the stream.
    pub(super) async fn next(&mut self) -> Option<Value> {
        loop {
            let event = timeout(Duration::from_secs(30), self.events.next()).await;
            let event = event.expect("nothing was received for 30 s")?;
            let Sse { event, data, id, .. } = event.expect("the stream was aborted");
            let Some(data) = data else { continue };
            self.last = id.map(|id| id.parse().unwrap()).or(self.last);
            let data: Value = serde_json::from_str(&data).unwrap();
            assert_eq!(Some(data["type"].as_str().unwrap()), event.as_deref());
            return Some(data);
        }
    }

    /// All events up to the first one of this type.
    pub(super) async fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("there was no {kind}: {all:?}"));
            all.push(event);
            if all.last().unwrap()["type"] == kind {
                return all;
            }
        }
    }
}
