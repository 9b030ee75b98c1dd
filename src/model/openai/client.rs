//! Sends requests and reads the streams of their replies.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use secrecy::SecretString;
use tokio::time::{Instant, timeout_at};

use super::assemble::Assembler;
use super::error;
use crate::domain::provider::Dialect;
use crate::model::error::ModelError;
use crate::model::http::{BadClient, Endpoint, Events, secret_header};
use crate::model::reply::{PartialReply, Progress, Reply};
use crate::model::reply_head::ReplyHead;
use crate::model::request::Request;

/// The timeout for the usage and the last event after the finish reason was received.
const TRAILER_TIMEOUT: Duration = Duration::from_secs(2);

/// The configuration of a client of Chat Completions.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// The base URL with its version, such as `http://localhost:11434/v1`; `/chat/completions` is
    /// appended to it.
    pub base_url: Url,
    /// The API key, sent as a bearer token; local servers need none.
    pub api_key: Option<SecretString>,
    /// The variant of the protocol that the server expects.
    pub dialect: Dialect,
    /// The maximum time without an event: before the headers, and inside the stream.
    pub idle_timeout: Duration,
}

/// A client of one server of Chat Completions.
#[derive(Debug, Clone)]
pub struct Client {
    completions: Endpoint,
    dialect: Dialect,
}

impl Client {
    /// Creates a client with pooled connections.
    pub fn new(config: &ClientConfig) -> Result<Self, BadClient> {
        let mut headers = HeaderMap::new();
        if let Some(key) = &config.api_key {
            headers.insert(AUTHORIZATION, secret_header("Bearer ", key)?);
        }
        let path = ["chat", "completions"];
        let idle = config.idle_timeout;
        let completions = Endpoint::new(&config.base_url, &path, headers, idle, error::read)?;
        Ok(Self { completions, dialect: config.dialect })
    }

    /// The variant of the protocol that the server expects.
    pub const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Sends a request and waits for the headers of its reply.
    pub async fn send(&self, request: Request) -> Result<ReplyStream, ModelError> {
        let sent = request.body.clone();
        let post = self.completions.post(request.body, request.trace);
        let events = self.completions.send(post).await?;
        let (assembler, ahead) = (Box::new(Assembler::new(sent)), VecDeque::new());
        Ok(ReplyStream { events, assembler, ahead, until: None })
    }
}

/// A reply whose stream is being read.
#[derive(Debug)]
pub struct ReplyStream {
    events: Events,
    /// Boxed, because it is large.
    assembler: Box<Assembler>,
    /// Progress of the last chunk that has not been returned yet.
    ahead: VecDeque<Progress>,
    /// The time at which the reply counts as complete without its last event.
    until: Option<Instant>,
}

impl ReplyStream {
    /// The values of the reply's headers.
    pub fn head(&self) -> &ReplyHead {
        self.events.head()
    }

    /// Returns the next progress for previews, or `None` at the end of the stream.
    ///
    /// Cancel safe: no data is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Option<Progress>, ModelError> {
        loop {
            if let Some(progress) = self.ahead.pop_front() {
                return Ok(Some(progress));
            }
            // The server may keep the connection open after the last event.
            if self.assembler.is_done() {
                return Ok(None);
            }
            let Some(data) = self.event().await? else { return Ok(None) };
            self.ahead.extend(self.assembler.push(&data)?);
            // This protocol has no pings. Servers send comments instead, which are not events.
            self.events.note_content();
        }
    }

    /// Returns the data of the next event. After the finish reason it waits only for a short time,
    /// because some servers send no last event and keep the connection open.
    async fn event(&mut self) -> Result<Option<String>, ModelError> {
        if !self.assembler.is_ended() {
            return self.events.next().await;
        }
        let until = *self.until.get_or_insert_with(|| Instant::now() + TRAILER_TIMEOUT);
        // The reply is complete, so an error of the stream is ignored.
        Ok(timeout_at(until, self.events.next()).await.ok().and_then(Result::ok).flatten())
    }

    /// Returns the complete reply after the end of the stream.
    pub fn finish(&self) -> Result<Reply, ModelError> {
        self.assembler.finish().map_err(|error| {
            if matches!(error, ModelError::Truncated) { self.events.truncated() } else { error }
        })
    }

    /// Closes the stream and returns the received part of the reply; `None` if it has not begun.
    pub fn abandon(self) -> Option<PartialReply> {
        self.assembler.partial()
    }
}
