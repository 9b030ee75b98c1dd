//! Sends requests and reads their streams.

use std::pin::Pin;
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Response, Url};
use secrecy::{ExposeSecret as _, SecretString};
use sse_stream::{Sse, SseByteStream};
use tokio::time::timeout;

use super::assemble::Assembler;
use super::decode::ErrorBody;
use crate::model::{ErrorKind, ModelError, Progress, Reply, ReplyHead, Request};

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
    pub(super) http: reqwest::Client,
    pub(super) messages_url: Url,
    pub(super) idle_timeout: Duration,
}

/// A client that cannot be made from its configuration.
#[derive(Debug, thiserror::Error)]
pub enum BadClient {
    /// The key has a character that a header cannot carry.
    #[error("the model's API key or version cannot be sent as a header")]
    Header,
    /// The base URL cannot have a path.
    #[error("the model's base URL {0} cannot be extended by a path")]
    BaseUrl(Url),
    /// TLS or the resolver did not start.
    #[error("the HTTP client did not start: {0}")]
    Http(#[from] reqwest::Error),
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// How much of an error's body is read.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// How much of a stream is read, padding and pings included.
const MAX_BODY: usize = 128 * 1024 * 1024;

impl Client {
    /// A client with pooled connections. There is no total timeout: an answer may take minutes,
    /// and it is silence that tells a dead connection.
    pub fn new(config: &ClientConfig) -> Result<Self, BadClient> {
        let mut headers = HeaderMap::new();
        let version = HeaderValue::from_str(&config.version).map_err(|_| BadClient::Header)?;
        headers.insert("anthropic-version", version);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = &config.api_key {
            let mut key =
                HeaderValue::from_str(key.expose_secret()).map_err(|_| BadClient::Header)?;
            key.set_sensitive(true);
            headers.insert("x-api-key", key);
        }
        let http = reqwest::Client::builder()
            .user_agent(concat!("twostep/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_keepalive(KEEP_ALIVE)
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        let mut messages_url = config.base_url.clone();
        messages_url
            .path_segments_mut()
            .map_err(|()| BadClient::BaseUrl(config.base_url.clone()))?
            .pop_if_empty()
            .extend(["v1", "messages"]);
        Ok(Self { http, messages_url, idle_timeout: config.idle_timeout })
    }

    /// Sends a request and waits for the headers of its reply.
    pub async fn send(&self, request: Request) -> Result<ReplyStream, ModelError> {
        let mut post = self.http.post(self.messages_url.clone()).body(request.body);
        if !request.betas.is_empty() {
            post = post.header("anthropic-beta", request.betas.as_ref());
        }
        let response = timeout(self.idle_timeout, post.send())
            .await
            .map_err(|_| ModelError::Idle(self.idle_timeout))?
            .map_err(|error| ModelError::Connect(error.without_url()))?;
        let head = ReplyHead::of(response.headers());
        if !response.status().is_success() {
            let status = response.status().as_u16();
            let known = head.clone();
            // A server that fails may do so in the middle of saying why.
            return Err(timeout(self.idle_timeout, refused(response, head)).await.unwrap_or_else(
                |_| {
                    let (kind, message) =
                        (ErrorKind::of_status(status), "no whole error body".to_owned());
                    ModelError::Api { status: Some(status), kind, message, head: known }
                },
            ));
        }
        check_is_stream(response.headers())?;
        Ok(ReplyStream {
            head,
            events: Box::pin(SseByteStream::new(bounded(response.bytes_stream()))),
            assembler: Assembler::default(),
            idle_timeout: self.idle_timeout,
        })
    }
}

/// A body that ends with an error when it is longer than any reply can be: the framing of events
/// keeps what it has not yet understood.
fn bounded(
    body: impl Stream<Item = reqwest::Result<Bytes>>,
) -> impl Stream<Item = io::Result<Bytes>> {
    let mut left = MAX_BODY;
    body.map(move |chunk| {
        let chunk = chunk.map_err(io::Error::other)?;
        left = left
            .checked_sub(chunk.len())
            .ok_or_else(|| io::Error::other("the body is too long for a reply"))?;
        Ok(chunk)
    })
}

async fn refused(mut response: Response, head: ReplyHead) -> ModelError {
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_ERROR_BODY {
            break;
        }
    }
    let (kind, message) = match serde_json::from_slice::<ErrorBody<'_>>(&body) {
        Ok(body) => (body.kind(), body.message()),
        // A proxy on the way answers with a page of its own.
        Err(_) => (ErrorKind::of_status(status), "no readable error body".to_owned()),
    };
    ModelError::Api { status: Some(status), kind, message, head }
}

/// A page, or one JSON object, comes from a server that is not the one meant, or that cannot
/// stream: asking it again helps nobody. Any other word is let pass, and so is none.
fn check_is_stream(headers: &HeaderMap) -> Result<(), ModelError> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if ["text/html", "application/json"].iter().any(|other| essence.eq_ignore_ascii_case(other)) {
        return Err(ModelError::Malformed(format!("it is of type {essence}")));
    }
    Ok(())
}

type Events = Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>;

/// A reply that is still coming in.
pub struct ReplyStream {
    head: ReplyHead,
    events: Events,
    assembler: Assembler,
    idle_timeout: Duration,
}

impl fmt::Debug for ReplyStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyStream").field("assembler", &self.assembler).finish_non_exhaustive()
    }
}

impl ReplyStream {
    /// What the headers of the reply said.
    pub fn head(&self) -> &ReplyHead {
        &self.head
    }

    /// The next thing that a reader would see; none at the end of the stream.
    ///
    /// Dropping the future between two calls loses nothing.
    pub async fn next(&mut self) -> Result<Option<Progress>, ModelError> {
        // The connection may stay open after the last event.
        while !self.assembler.is_whole() {
            let event = timeout(self.idle_timeout, self.events.next())
                .await
                .map_err(|_| ModelError::Idle(self.idle_timeout))?;
            let Some(event) = event else { return Ok(None) };
            let data = event.map_err(|error| ModelError::Broken(error.into()))?.data;
            let Some(data) = data else { continue };
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
