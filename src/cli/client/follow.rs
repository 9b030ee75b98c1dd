//! Following a run: its events, each once, over as many connections as it takes.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use sse_stream::{Sse, SseByteStream};

use super::patience::Patience;
use super::{Client, Failure};
use crate::domain::event::STATUS_IDLE;

/// The pause before a stream is opened again, unless the service names another.
const PAUSE: Duration = Duration::from_secs(2);

/// What comes of a run that is followed.
#[derive(Debug)]
pub(in crate::cli) enum Came {
    /// An event, or a preview of one: one line of JSON.
    Event(String),
    /// The connection is gone; it is made again, and nothing is missed.
    Lost,
}

type Events = Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>;

/// A run that is followed.
pub(in crate::cli) struct Following {
    client: Client,
    session: String,
    run: String,
    /// The number of the event that came last.
    last: Option<i64>,
    events: Option<Events>,
    pause: Duration,
    patience: Patience,
    /// Whether a connection was lost, so that the next one has to wait.
    is_lost: bool,
    is_over: bool,
}

impl fmt::Debug for Following {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Following").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Following {
    /// Follows a run from its first event on.
    pub(in crate::cli) fn new(client: &Client, session: &str, run: &str) -> Self {
        Self {
            client: client.clone(),
            session: session.to_owned(),
            run: run.to_owned(),
            last: None,
            events: None,
            pause: PAUSE,
            patience: Patience::default(),
            is_lost: false,
            is_over: false,
        }
    }

    /// What comes next; none when the run has come to rest. Dropping the future loses nothing.
    pub(in crate::cli) async fn next(&mut self) -> Result<Option<Came>, Failure> {
        while !self.is_over {
            let Some(events) = &mut self.events else {
                self.open().await?;
                continue;
            };
            // An end in order is none before the run has come to rest: something on the way has
            // made one of a connection that broke.
            let Some(Ok(event)) = events.next().await else {
                self.events = None;
                self.is_lost = true;
                return Ok(Some(Came::Lost));
            };
            if let Some(json) = self.take(event) {
                return Ok(Some(Came::Event(json)));
            }
        }
        Ok(None)
    }

    /// Goes on with what comes after the rest.
    pub(in crate::cli) fn go_on(&mut self) {
        self.events = None;
        self.is_over = false;
    }

    async fn open(&mut self) -> Result<(), Failure> {
        let asked = self.is_lost.then_some(self.pause);
        loop {
            if self.is_lost && !self.patience.wait(asked).await {
                return Err(Failure::strange(&self.client, "its streams break again and again"));
            }
            self.is_lost = false;
            match self.connect().await {
                Ok(Some(events)) => self.events = Some(events),
                Ok(None) => self.is_over = true,
                Err(failure) if failure.may_pass() => {
                    if self.patience.wait(failure.retry_after()).await {
                        continue;
                    }
                    return Err(failure);
                }
                Err(failure) => return Err(failure),
            }
            return Ok(());
        }
    }

    /// Opens the stream behind what came last; none if there is nothing more.
    async fn connect(&self) -> Result<Option<Events>, Failure> {
        let path = ["sessions", &*self.session, "runs", &*self.run, "stream"];
        let mut call = self.client.get(&path).header("accept", "text/event-stream");
        if let Some(last) = self.last {
            call = call.header("last-event-id", &last.to_string());
        }
        let answer = call.head().await?;
        if answer.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return Err(Failure::strange(&self.client, "with something that is no stream"));
        }
        Ok(Some(Box::pin(SseByteStream::new(answer.bytes_stream()))))
    }

    /// What an SSE event tells, if it is one that did not come before.
    fn take(&mut self, event: Sse) -> Option<String> {
        #[derive(Deserialize)]
        struct Tag {
            r#type: String,
        }
        if let Some(pause) = event.retry {
            self.pause = Duration::from_millis(pause);
        }
        let json = event.data?;
        let Tag { r#type: kind } = serde_json::from_str(&json).ok()?;
        self.patience.renew();
        if let Some(id) = event.id.and_then(|id| id.parse().ok()) {
            if self.last.is_some_and(|last| id <= last) {
                return None;
            }
            self.last = Some(id);
        }
        self.is_over = kind == STATUS_IDLE || kind == "session.deleted";
        Some(json)
    }
}
