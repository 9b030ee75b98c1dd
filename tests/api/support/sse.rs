//! A client of event streams.

use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use sse_stream::{Sse, SseByteStream};
use tokio::time::timeout;

/// A received event.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// The sequence number; `None` for a preview.
    pub(crate) id: Option<i64>,
    /// The name of the SSE event.
    pub(crate) name: String,
    /// The data.
    pub(crate) data: Value,
}

/// An open stream.
pub(crate) struct EventStream {
    events: Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>,
    pub(crate) headers: reqwest::header::HeaderMap,
}

impl EventStream {
    pub(crate) fn new(response: Response) -> Self {
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let headers = response.headers().clone();
        Self { events: Box::pin(SseByteStream::new(response.bytes_stream())), headers }
    }

    /// The next event; `None` at the regular end of the stream. An aborted stream fails the test.
    pub(crate) async fn next(&mut self) -> Option<Received> {
        self.try_next().await.expect("the stream was aborted")
    }

    /// The next event; `None` at the regular end of the stream, an error if it was aborted.
    pub(crate) async fn try_next(&mut self) -> Result<Option<Received>, sse_stream::Error> {
        loop {
            let event = timeout(Duration::from_secs(30), self.events.next()).await;
            let Some(event) = event.expect("nothing was received for 30 s") else {
                return Ok(None);
            };
            let Sse { event, data, id, .. } = event?;
            let Some(data) = data else { continue };
            let received = Received {
                id: id.map(|id| id.parse().unwrap()),
                name: event.unwrap(),
                data: serde_json::from_str(&data).unwrap(),
            };
            assert_eq!(received.data["type"], received.name);
            assert_eq!(received.data["seq"].as_i64(), received.id);
            return Ok(Some(received));
        }
    }

    /// All events up to the regular end of the stream.
    pub(crate) async fn rest(mut self) -> Vec<Received> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }

    /// Reads up to the first event with this name.
    pub(crate) async fn until(&mut self, name: &str) -> Received {
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("there was no {name}"));
            if event.name == name {
                return event;
            }
        }
    }
}

/// The data of the durable events, which have a sequence number.
pub(crate) fn durable(events: &[Received]) -> Vec<Value> {
    let is_durable = |event: &&Received| event.id.is_some();
    events.iter().filter(is_durable).map(|event| event.data.clone()).collect()
}
