//! Follows a run: reads each event once and reconnects when the connection is lost.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use sse_stream::{Sse, SseByteStream};

use super::backoff::Backoff;
use super::{Client, Failure};
use crate::domain::event::STATUS_IDLE;

/// The delay before a reconnect, unless the service sends another in `retry`.
const RECONNECT_DELAY: Duration = Duration::from_secs(2);

/// An update of a run that is followed.
#[derive(Debug)]
pub(in crate::cli) enum Update {
    /// An event or a preview, as one line of JSON.
    Event(String),
    /// The connection was lost. The next call reconnects; no event is missed.
    ConnectionLost,
    /// A second has passed.
    Waiting,
}

type Events = Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>;

/// The event stream of a run.
pub(in crate::cli) struct Following {
    client: Client,
    session: String,
    run: String,
    /// The number of the last event.
    last_seq: Option<i64>,
    events: Option<Events>,
    delay: Duration,
    backoff: Backoff,
    /// True after a lost connection: the next one waits for the delay.
    was_lost: bool,
    is_done: bool,
}

impl fmt::Debug for Following {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Following").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Following {
    /// Follows a run from its first event.
    pub(in crate::cli) fn new(client: &Client, session: &str, run: &str) -> Self {
        Self {
            client: client.clone(),
            session: session.to_owned(),
            run: run.to_owned(),
            last_seq: None,
            events: None,
            delay: RECONNECT_DELAY,
            backoff: Backoff::default(),
            was_lost: false,
            is_done: false,
        }
    }

    /// Returns the next update, or `None` when the run has settled or waits. Cancel safe.
    pub(in crate::cli) async fn next(&mut self) -> Result<Option<Update>, Failure> {
        while !self.is_done {
            let Some(events) = &mut self.events else {
                self.open().await?;
                continue;
            };
            // The service never ends a stream before the run settles or waits. A clean end comes
            // from a proxy whose connection to the service broke.
            let Some(Ok(event)) = events.next().await else {
                self.events = None;
                self.was_lost = true;
                return Ok(Some(Update::ConnectionLost));
            };
            if let Some(json) = self.take(event) {
                return Ok(Some(Update::Event(json)));
            }
        }
        Ok(None)
    }

    /// Continues with the events that follow the wait.
    pub(in crate::cli) fn resume(&mut self) {
        self.events = None;
        self.is_done = false;
    }

    async fn open(&mut self) -> Result<(), Failure> {
        let requested = self.was_lost.then_some(self.delay);
        loop {
            if self.was_lost && !self.backoff.wait(requested).await {
                return Err(Failure::unexpected(&self.client, "its streams break repeatedly"));
            }
            self.was_lost = false;
            match self.connect().await {
                Ok(Some(events)) => self.events = Some(events),
                Ok(None) => self.is_done = true,
                Err(failure) if failure.is_temporary() => {
                    if self.backoff.wait(failure.retry_after()).await {
                        continue;
                    }
                    return Err(failure);
                }
                Err(failure) => return Err(failure),
            }
            return Ok(());
        }
    }

    /// Opens the stream after the last event. `None` if the service has no further events.
    async fn connect(&self) -> Result<Option<Events>, Failure> {
        let path = ["sessions", &*self.session, "runs", &*self.run, "stream"];
        let mut call = self.client.get(&path).header("accept", "text/event-stream");
        if let Some(last) = self.last_seq {
            call = call.header("last-event-id", &last.to_string());
        }
        let answer = call.head().await?;
        if answer.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return Err(Failure::unexpected(&self.client, "the body is not an event stream"));
        }
        Ok(Some(Box::pin(SseByteStream::new(answer.bytes_stream()))))
    }

    /// Returns the data of an SSE event, unless the event was received before.
    fn take(&mut self, event: Sse) -> Option<String> {
        #[derive(Deserialize)]
        struct Tag {
            r#type: String,
        }
        if let Some(delay) = event.retry {
            self.delay = Duration::from_millis(delay);
        }
        let json = event.data?;
        let Tag { r#type: kind } = serde_json::from_str(&json).ok()?;
        self.backoff.reset();
        if let Some(id) = event.id.and_then(|id| id.parse().ok()) {
            if self.last_seq.is_some_and(|last| id <= last) {
                return None;
            }
            self.last_seq = Some(id);
        }
        self.is_done = kind == STATUS_IDLE || kind == "session.deleted";
        Some(json)
    }
}
