//! Sends requests and reads the streams of their replies.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{RequestBuilder, Url};
use secrecy::SecretString;

use super::assemble::Assembler;
use super::decode::ErrorBody;
use crate::model::error::ModelError;
use crate::model::http::{BadClient, Endpoint, ErrorReport, Events, secret_header};
use crate::model::reply::{PartialReply, Progress, Reply};
use crate::model::reply_head::ReplyHead;
use crate::model::request::Request;

/// The configuration of a client of the Messages API.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// The base URL, to which `/v1/messages` is appended.
    pub base_url: Url,
    /// The API key, sent as `x-api-key`; local servers need none.
    pub api_key: Option<SecretString>,
    /// A bearer token, which gateways expect instead of a key.
    pub auth_token: Option<SecretString>,
    /// The API version, sent as `anthropic-version`.
    pub version: String,
    /// The maximum time without an event: before the headers, and inside the stream.
    pub idle_timeout: Duration,
}

/// A client of one server of the Messages API.
#[derive(Debug, Clone)]
pub struct Client {
    pub(super) messages: Endpoint,
}

impl Client {
    /// Creates a client with pooled connections.
    pub fn new(config: &ClientConfig) -> Result<Self, BadClient> {
        let mut headers = HeaderMap::new();
        let version = HeaderValue::from_str(&config.version).map_err(|_| BadClient::Header)?;
        headers.insert("anthropic-version", version);
        if let Some(key) = &config.api_key {
            headers.insert("x-api-key", secret_header("", key)?);
        }
        if let Some(token) = &config.auth_token {
            headers.insert(AUTHORIZATION, secret_header("Bearer ", token)?);
        }
        let path = ["v1", "messages"];
        let messages =
            Endpoint::new(&config.base_url, &path, headers, config.idle_timeout, read_error)?;
        Ok(Self { messages })
    }

    /// Sends a request and waits for the headers of its reply.
    pub async fn send(&self, request: Request) -> Result<ReplyStream, ModelError> {
        let sent = request.body.clone();
        let events = self.messages.send(with_betas(&self.messages, request)).await?;
        Ok(ReplyStream { events, assembler: Assembler::new(sent) })
    }
}

/// Builds the POST request, with the header that names the beta features.
pub(super) fn with_betas(endpoint: &Endpoint, request: Request) -> RequestBuilder {
    let post = endpoint.post(request.body, request.trace);
    if request.betas.is_empty() {
        return post;
    }
    post.header("anthropic-beta", request.betas.as_ref())
}

fn read_error(_: u16, body: &[u8]) -> Option<ErrorReport> {
    serde_json::from_slice::<ErrorBody<'_>>(body).ok().map(ErrorReport::from)
}

/// A reply whose stream is being read.
#[derive(Debug)]
pub struct ReplyStream {
    events: Events,
    assembler: Assembler,
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
        // The server may keep the connection open after the last event.
        while !self.assembler.is_whole() {
            let Some(data) = self.events.next().await? else { return Ok(None) };
            let progress = self.assembler.push(&data)?;
            if self.assembler.takes_content() {
                self.events.note_content();
            }
            if progress != Progress::Nothing {
                return Ok(Some(progress));
            }
        }
        Ok(None)
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
