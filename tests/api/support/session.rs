//! A session of a service under test.

use std::time::Duration;

use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::{EventStream, TestApp};

/// A session of a running service.
pub(crate) struct Session<'a> {
    pub(crate) app: &'a TestApp,
    pub(crate) id: String,
}

impl Session<'_> {
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/sessions/{}{rest}", self.id)
    }

    /// A request that posts a message; the caller may add headers.
    pub(crate) fn message(&self, body: &Value) -> RequestBuilder {
        self.app.post(&self.path("/messages")).json(body)
    }

    /// Posts a text and returns the settled run.
    pub(crate) async fn ask(&self, text: &str) -> Value {
        self.ask_with(json!({ "content": text })).await
    }

    pub(crate) async fn ask_with(&self, body: Value) -> Value {
        let response = self.message(&body).header("prefer", "wait=60").send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "the run did not settle");
        response.json().await.unwrap()
    }

    /// Posts a message and returns the accepted run without waiting for it.
    pub(crate) async fn post(&self, body: Value) -> Value {
        let response = self.message(&body).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::ACCEPTED);
        response.json().await.unwrap()
    }

    /// Posts a text and streams its run.
    pub(crate) async fn stream(&self, text: &str) -> EventStream {
        let request = self.message(&json!({ "content": text }));
        EventStream::new(request.header("accept", "text/event-stream").send().await.unwrap())
    }

    /// All items of the history, without the events that report them.
    pub(crate) async fn history(&self) -> Vec<Value> {
        let mut items = self.history_with_events().await;
        for item in &mut items {
            item.as_object_mut().unwrap().remove("events");
        }
        items
    }

    /// All items of the history.
    pub(crate) async fn history_with_events(&self) -> Vec<Value> {
        self.list("/messages").await
    }

    /// All events.
    pub(crate) async fn events(&self) -> Vec<Value> {
        self.list("/events").await
    }

    async fn list(&self, resource: &str) -> Vec<Value> {
        let mut all = Vec::new();
        let mut after = "0".to_owned();
        loop {
            let path = self.path(&format!("{resource}?limit=200&after={after}"));
            let mut page: Value = self.app.get(&path).send().await.unwrap().json().await.unwrap();
            all.append(page["data"].as_array_mut().unwrap());
            match page["next_cursor"].as_str() {
                Some(cursor) => cursor.clone_into(&mut after),
                None => return all,
            }
        }
    }

    /// Cancels a run.
    pub(crate) async fn cancel(&self, run: &Value) {
        let path = self.path(&format!("/runs/{}/cancel", run["id"].as_str().unwrap()));
        let response = self.app.post(&path).send().await.unwrap();
        assert!(response.status().is_success());
    }

    /// Opens a stream, which starts after the event `last` if one is given.
    pub(crate) async fn open(&self, path: &str, last: Option<i64>) -> EventStream {
        let mut request = self.app.get(path);
        if let Some(last) = last {
            request = request.header("last-event-id", last.to_string());
        }
        EventStream::new(request.send().await.unwrap())
    }

    /// The path of a run's stream.
    pub(crate) fn run_stream(&self, run: &Value) -> String {
        self.path(&format!("/runs/{}/stream", run["id"].as_str().unwrap()))
    }

    /// The current state of a run.
    pub(crate) async fn run(&self, run: &Value) -> Value {
        let path = self.path(&format!("/runs/{}", run["id"].as_str().unwrap()));
        let response = self.app.get(&path).send().await.unwrap();
        response.json().await.unwrap()
    }

    /// Waits until an event of this type is stored for a run.
    pub(crate) async fn reached(&self, run: &Value, kind: &str) {
        let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
        let is_stored = |event: &Value| event["type"] == kind && event["run_id"] == run["id"];
        while !self.events().await.iter().any(is_stored) {
            assert!(tokio::time::Instant::now() < deadline, "there was no {kind}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until a run has settled.
    pub(crate) async fn settled(&self, run: &Value) -> Value {
        let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
        loop {
            let run = self.run(run).await;
            if matches!(run["status"].as_str().unwrap(), "completed" | "failed" | "cancelled") {
                return run;
            }
            assert!(tokio::time::Instant::now() < deadline, "the run did not settle: {run}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
