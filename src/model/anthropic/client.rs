//! Sends requests and reads the streams of their replies.

use std::time::Duration;

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use secrecy::SecretString;

use super::assemble::Assembler;
use super::decode::ErrorBody;
use super::platform::{self, Access, Authorized, Hosting};
use crate::domain::platform::Platform;
use crate::model::error::ModelError;
use crate::model::http::{BadClient, Endpoint, ErrorReport, Events, secret_header};
use crate::model::reply::{PartialReply, Progress, Reply};
use crate::model::reply_head::ReplyHead;
use crate::model::request::Request;

/// The configuration of a client of the Messages API.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// The base URL, to which `/v1/messages` is appended, except for Google Cloud.
    pub base_url: Url,
    /// The API key, sent as `x-api-key`; local servers need none.
    pub api_key: Option<SecretString>,
    /// A bearer token, which gateways expect instead of a key.
    pub auth_token: Option<SecretString>,
    /// The API version, sent as `anthropic-version`.
    pub version: String,
    /// The cloud that the server belongs to.
    pub hosting: Hosting,
    /// The maximum time without an event: before the headers, and inside the stream.
    pub idle_timeout: Duration,
}

/// A client of one server of the Messages API.
#[derive(Debug, Clone)]
pub struct Client {
    /// Of Google Cloud, the folder of the models.
    pub(super) messages: Endpoint,
    access: Access,
    platform: Option<Platform>,
}

impl Client {
    /// Creates a client with pooled connections.
    pub fn new(config: &ClientConfig) -> Result<Self, BadClient> {
        let mut headers = HeaderMap::new();
        let platform = config.hosting.platform();
        // Google Cloud has the version in the body.
        let is_in_header = platform != Some(Platform::Vertex);
        if is_in_header {
            let version = HeaderValue::from_str(&config.version).map_err(|_| BadClient::Header)?;
            headers.insert("anthropic-version", version);
        }
        if let Some(key) = &config.api_key {
            headers.insert("x-api-key", secret_header("", key)?);
        }
        if let Some(token) = &config.auth_token {
            headers.insert(AUTHORIZATION, secret_header("Bearer ", token)?);
        }
        let path: &[&str] = if is_in_header { &["v1", "messages"] } else { &[] };
        let messages =
            Endpoint::new(&config.base_url, path, headers, config.idle_timeout, read_error)?;
        Ok(Self { messages, access: Access::new(&config.hosting)?, platform })
    }

    /// The cloud that the server belongs to, if any.
    pub const fn platform(&self) -> Option<Platform> {
        self.platform
    }

    /// Sends a request and waits for the headers of its reply.
    pub async fn send(&self, request: Request) -> Result<ReplyStream, ModelError> {
        let sent = request.body.clone();
        let events = match &request.model_in_url {
            Some(model) => {
                let endpoint = self.messages.child(&format!("{model}:streamRawPredict"));
                self.send_to(&endpoint, &request).await?
            }
            None => self.send_to(&self.messages, &request).await?,
        };
        Ok(ReplyStream { events, assembler: Assembler::new(sent) })
    }

    async fn send_to(&self, endpoint: &Endpoint, request: &Request) -> Result<Events, ModelError> {
        let Authorized { post, token } = self.authorized(endpoint, request).await?;
        match endpoint.send(post).await {
            Err(error) if self.access.discard(token.as_ref(), &error).await => {
                let Authorized { post, .. } = self.authorized(endpoint, request).await?;
                endpoint.send(post).await
            }
            sent => sent,
        }
    }

    /// Builds the POST request, with everything that the server requires for access.
    pub(super) async fn authorized(
        &self,
        endpoint: &Endpoint,
        request: &Request,
    ) -> Result<Authorized, ModelError> {
        let mut post = endpoint.post(request.body.clone(), request.trace);
        if self.platform == Some(Platform::Bedrock) {
            // A signature covers the headers of the request, not those of the client.
            post = post.headers(self.messages.headers().clone());
        }
        if !request.betas.is_empty() {
            post = post.header("anthropic-beta", request.betas.as_ref());
        }
        self.access.authorize(post).await
    }
}

/// Parses an error of the API, or of the gateway of a cloud before it.
fn read_error(status: u16, body: &[u8]) -> Option<ErrorReport> {
    let of_api = serde_json::from_slice::<ErrorBody<'_>>(body).ok().filter(ErrorBody::has_kind);
    of_api.map(ErrorReport::from).or_else(|| platform::read_error(status, body))
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
