//! Sends requests and reads their streams.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{RequestBuilder, Url};
use secrecy::SecretString;

use super::assemble::Assembler;
use super::decode::ErrorBody;
use crate::model::http::{BadClient, Complaint, Endpoint, Events, secret_header};
use crate::model::{ModelError, Progress, Reply, ReplyHead, Request};

/// Where the model is and how to speak to it.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Without the `/v1/messages` that is added to it.
    pub base_url: Url,
    /// Sent as `x-api-key`; local servers need none.
    pub api_key: Option<SecretString>,
    /// Sent as `anthropic-version`.
    pub version: String,
    /// The longest silence: before the headers, and between two pieces of a stream.
    pub idle_timeout: Duration,
}

/// A client of one server of the Messages API.
#[derive(Debug, Clone)]
pub struct Client {
    pub(super) messages: Endpoint,
}

impl Client {
    /// A client with pooled connections.
    pub fn new(config: &ClientConfig) -> Result<Self, BadClient> {
        let mut headers = HeaderMap::new();
        let version = HeaderValue::from_str(&config.version).map_err(|_| BadClient::Header)?;
        headers.insert("anthropic-version", version);
        if let Some(key) = &config.api_key {
            headers.insert("x-api-key", secret_header("", key)?);
        }
        let path = ["v1", "messages"];
        let messages =
            Endpoint::new(&config.base_url, &path, headers, config.idle_timeout, read_error)?;
        Ok(Self { messages })
    }

    /// Sends a request and waits for the headers of its reply.
    pub async fn send(&self, request: Request) -> Result<ReplyStream, ModelError> {
        let events = self.messages.send(with_betas(&self.messages, request)).await?;
        Ok(ReplyStream { events, assembler: Assembler::default() })
    }
}

/// A request as it is posted, with the beta features that it uses.
pub(super) fn with_betas(endpoint: &Endpoint, request: Request) -> RequestBuilder {
    let post = endpoint.post(request.body, request.trace);
    if request.betas.is_empty() {
        return post;
    }
    post.header("anthropic-beta", request.betas.as_ref())
}

fn read_error(_: u16, body: &[u8]) -> Option<Complaint> {
    serde_json::from_slice::<ErrorBody<'_>>(body).ok().map(Complaint::from)
}

/// A reply that is still coming in.
#[derive(Debug)]
pub struct ReplyStream {
    events: Events,
    assembler: Assembler,
}

impl ReplyStream {
    /// What the headers of the reply said.
    pub fn head(&self) -> &ReplyHead {
        self.events.head()
    }

    /// The next thing that a reader would see; none at the end of the stream.
    ///
    /// Dropping the future between two calls loses nothing.
    pub async fn next(&mut self) -> Result<Option<Progress>, ModelError> {
        // The connection may stay open after the last event.
        while !self.assembler.is_whole() {
            let Some(data) = self.events.next().await? else { return Ok(None) };
            let progress = self.assembler.push(&data)?;
            if progress != Progress::Nothing {
                return Ok(Some(progress));
            }
        }
        Ok(None)
    }

    /// The whole reply, once the stream has ended.
    pub fn finish(self) -> Result<Reply, ModelError> {
        self.assembler.finish()
    }
}
