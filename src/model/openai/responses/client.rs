//! Sends requests and reads the streams of their replies.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use secrecy::SecretString;

use super::super::error;
use super::assemble::Assembler;
use crate::model::error::ModelError;
use crate::model::http::{BadClient, Endpoint, Events, secret_header};
use crate::model::reply::{PartialReply, Progress, Reply};
use crate::model::reply_head::ReplyHead;
use crate::model::request::Request;

/// The configuration of a client of Responses.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// The base URL with its version, such as `https://api.openai.com/v1`; `/responses` is appended to
    /// it.
    pub base_url: Url,
    /// The API key, sent as a bearer token.
    pub api_key: Option<SecretString>,
    /// The maximum time without an event: before the headers, and inside the stream.
    pub idle_timeout: Duration,
}

/// A client of one server of Responses.
#[derive(Debug, Clone)]
pub struct Client {
    responses: Endpoint,
}

impl Client {
    /// Creates a client with pooled connections.
    pub fn new(config: &ClientConfig) -> Result<Self, BadClient> {
        let mut headers = HeaderMap::new();
        if let Some(key) = &config.api_key {
            headers.insert(AUTHORIZATION, secret_header("Bearer ", key)?);
        }
        let idle = config.idle_timeout;
        let responses =
            Endpoint::new(&config.base_url, &["responses"], headers, idle, error::read)?;
        Ok(Self { responses })
    }

    /// Sends a request and waits for the headers of its reply.
    pub async fn send(&self, request: Request) -> Result<ReplyStream, ModelError> {
        let sent = request.body.clone();
        let events = self.responses.send(self.responses.post(request.body, request.trace)).await?;
        let assembler = Box::new(Assembler::new(sent));
        Ok(ReplyStream { events, assembler, ahead: VecDeque::new() })
    }
}

/// A reply whose stream is being read.
#[derive(Debug)]
pub struct ReplyStream {
    events: Events,
    /// Boxed, because it is large.
    assembler: Box<Assembler>,
    /// Progress of the last event that has not been returned yet.
    ahead: VecDeque<Progress>,
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
            if self.assembler.is_ended() {
                return Ok(None);
            }
            let Some(data) = self.events.next().await? else { return Ok(None) };
            self.ahead.extend(self.assembler.push(&data)?);
            self.events.note_content();
        }
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
