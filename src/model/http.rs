//! What the clients of all protocols have in common: connections, deadlines, bounds, and what is
//! read of an error.

use std::pin::Pin;
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{RequestBuilder, Response, Url};
use secrecy::{ExposeSecret as _, SecretString};
use sse_stream::{Sse, SseByteStream};
use tokio::time::timeout;

use super::{ErrorKind, ModelError, ReplyHead};
use crate::domain::trace::Trace;

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
/// How much of an error's body is read, and of an answer that is not a stream.
const MAX_SMALL_BODY: usize = 64 * 1024;
/// How much of a stream is read, padding and pings included.
const MAX_BODY: usize = 128 * 1024 * 1024;

/// What the body of an error says.
#[derive(Debug)]
pub(super) struct Complaint {
    pub(super) kind: ErrorKind,
    pub(super) message: String,
    /// As in [`ModelError::Api`].
    pub(super) paths: Box<[String]>,
}

/// Reads the body of an error response of this status; none if it is not of the protocol.
pub(super) type ReadError = fn(u16, &[u8]) -> Option<Complaint>;

/// Where the requests of one protocol go.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    http: reqwest::Client,
    url: Url,
    idle_timeout: Duration,
    read_error: ReadError,
}

impl Endpoint {
    /// An endpoint with pooled connections. There is no total timeout: an answer may take minutes,
    /// and it is silence that tells a dead connection.
    pub(super) fn new(
        base_url: &Url,
        path: &[&str],
        mut headers: HeaderMap,
        idle_timeout: Duration,
        read_error: ReadError,
    ) -> Result<Self, BadClient> {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let http = reqwest::Client::builder()
            .user_agent(concat!("twostep/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_keepalive(KEEP_ALIVE)
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        let mut url = base_url.clone();
        url.path_segments_mut()
            .map_err(|()| BadClient::BaseUrl(base_url.clone()))?
            .pop_if_empty()
            .extend(path);
        Ok(Self { http, url, idle_timeout, read_error })
    }

    /// A request, to be completed by headers.
    pub(super) fn post(&self, body: Bytes, trace: Option<Trace>) -> RequestBuilder {
        let post = self.http.post(self.url.clone()).body(body);
        match trace {
            Some(trace) => post.header("traceparent", trace.to_string()),
            None => post,
        }
    }

    /// Sends a request and waits for the headers of its reply.
    pub(super) async fn send(&self, post: RequestBuilder) -> Result<Events, ModelError> {
        let response = timeout(self.idle_timeout, post.send())
            .await
            .map_err(|_| ModelError::Idle(self.idle_timeout))?
            .map_err(|error| ModelError::Connect(error.without_url()))?;
        let head = ReplyHead::of(response.headers());
        if !response.status().is_success() {
            return Err(self.refused(response, head).await);
        }
        check_is_stream(response.headers())?;
        Ok(Events {
            head,
            stream: Box::pin(SseByteStream::new(bounded(response.bytes_stream()))),
            idle_timeout: self.idle_timeout,
        })
    }

    async fn refused(&self, response: Response, head: ReplyHead) -> ModelError {
        let status = response.status().as_u16();
        // A server that fails may do so in the middle of saying why.
        let complaint = match timeout(self.idle_timeout, small_body(response)).await {
            // A proxy on the way answers with a page of its own.
            Ok(body) => (self.read_error)(status, &body)
                .unwrap_or_else(|| Complaint::of_status(status, "no readable error body")),
            Err(_) => Complaint::of_status(status, "no whole error body"),
        };
        complaint.error(Some(status), head)
    }

    /// Sends a question and waits for its answer, one JSON object, within this time.
    pub(super) async fn answer(
        &self,
        post: RequestBuilder,
        within: Duration,
    ) -> Result<Vec<u8>, ModelError> {
        let answered = async {
            let failed = |error: reqwest::Error| ModelError::Connect(error.without_url());
            let response = post.send().await.map_err(failed)?;
            if !response.status().is_success() {
                let head = ReplyHead::of(response.headers());
                return Err(self.refused(response, head).await);
            }
            Ok(small_body(response).await)
        };
        timeout(within, answered).await.map_err(|_| ModelError::Idle(within))?
    }

    /// The same endpoint, at a path beneath this one.
    pub(super) fn beneath(&self, name: &str) -> Self {
        let mut beneath = self.clone();
        if let Ok(mut path) = beneath.url.path_segments_mut() {
            path.push(name);
        }
        beneath
    }

    /// The address of a neighbour, with this name in place of the last one.
    pub(super) fn beside(&self, name: &str) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop().push(name);
        }
        url
    }

    /// A request for a page of the same server.
    pub(super) fn get(&self, url: Url) -> RequestBuilder {
        self.http.get(url)
    }

    /// The longest silence.
    pub(super) const fn idle_timeout(&self) -> Duration {
        self.idle_timeout
    }
}

impl Complaint {
    fn of_status(status: u16, message: &str) -> Self {
        let (kind, message) = (ErrorKind::of_status(status), message.to_owned());
        Self { kind, message, paths: Box::default() }
    }

    /// The error, told by a status or, without one, inside a stream.
    pub(super) fn error(self, status: Option<u16>, head: ReplyHead) -> ModelError {
        let Self { kind, message, paths } = self;
        ModelError::Api { status, kind, message, paths, head }
    }
}

/// A header that shows nowhere.
pub(super) fn secret_header(prefix: &str, key: &SecretString) -> Result<HeaderValue, BadClient> {
    let text = SecretString::from(format!("{prefix}{}", key.expose_secret()));
    let mut value = HeaderValue::from_str(text.expose_secret()).map_err(|_| BadClient::Header)?;
    value.set_sensitive(true);
    Ok(value)
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

async fn small_body(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_SMALL_BODY {
            break;
        }
    }
    body
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

/// The events of a reply that is still coming in.
pub(super) struct Events {
    head: ReplyHead,
    stream: Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>,
    idle_timeout: Duration,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Events {
    /// What the headers of the reply said.
    pub(super) const fn head(&self) -> &ReplyHead {
        &self.head
    }

    /// The data of the next event that has any; none at the end of the stream.
    ///
    /// Dropping the future between two calls loses nothing.
    pub(super) async fn next(&mut self) -> Result<Option<String>, ModelError> {
        loop {
            let event = timeout(self.idle_timeout, self.stream.next())
                .await
                .map_err(|_| ModelError::Idle(self.idle_timeout))?;
            let Some(event) = event else { return Ok(None) };
            let event = event.map_err(|error| ModelError::Broken(error.into()))?;
            if event.data.is_some() {
                return Ok(event.data);
            }
        }
    }
}
