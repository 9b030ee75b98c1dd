//! The HTTP layer that the clients of all protocols share: connections, timeouts, size limits and
//! error responses.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::ready;
use futures::stream::once;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{RequestBuilder, Response, Url};
use secrecy::{ExposeSecret as _, SecretString};
use sse_stream::{Sse, SseByteStream};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};

use super::connections::{ClientPermit, Clients};
use super::error::{ErrorKind, ModelError};
use super::reply_bounds::{bounded, exceeded_bound};
use super::reply_head::ReplyHead;
use crate::domain::trace::Trace;

/// An invalid configuration of a client.
#[derive(Debug, thiserror::Error)]
pub enum BadClient {
    /// The API key or version contains a character that a header cannot contain.
    #[error("the model's API key or version cannot be sent as a header")]
    Header,
    /// The base URL cannot have a path.
    #[error("the model's base URL {0} cannot be extended by a path")]
    BaseUrl(Url),
    /// TLS or the DNS resolver failed to initialize.
    #[error("the HTTP client did not start: {0}")]
    Http(#[from] reqwest::Error),
}

const JSON: &str = "application/json";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// The maximum number of bytes read of an error body or of a response that is not a stream.
const MAX_SMALL_BODY: usize = 64 * 1024;
/// The time for which a stream may have only pings, as a multiple of the idle timeout. The API sends
/// pings while a model thinks and its thinking is not shown, and does not document their interval.
const PATIENCE: u32 = 10;

/// The contents of an error body.
#[derive(Debug)]
pub(super) struct ErrorReport {
    pub(super) kind: ErrorKind,
    pub(super) message: String,
    /// As in [`ModelError::Api`].
    pub(super) paths: Box<[String]>,
}

/// Parses the body of an error response with this status; `None` if it does not match the protocol.
pub(super) type ReadError = fn(u16, &[u8]) -> Option<ErrorReport>;

/// The endpoint of one protocol, with its connection pools.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    clients: Arc<Clients>,
    /// The headers of all requests.
    headers: HeaderMap,
    url: Url,
    idle_timeout: Duration,
    read_error: ReadError,
}

impl Endpoint {
    /// Creates an endpoint with pooled connections. There is no total timeout: a reply may take
    /// minutes, and the idle timeout detects dead connections.
    pub(super) fn new(
        base_url: &Url,
        path: &[&str],
        mut headers: HeaderMap,
        idle_timeout: Duration,
        read_error: ReadError,
    ) -> Result<Self, BadClient> {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        let of_all = headers.clone();
        let clients = Clients::new(move || {
            reqwest::Client::builder()
                .user_agent(concat!("twostep/", env!("CARGO_PKG_VERSION")))
                .default_headers(headers.clone())
                .connect_timeout(CONNECT_TIMEOUT)
                .tcp_keepalive(KEEP_ALIVE)
                .redirect(reqwest::redirect::Policy::none())
                .build()
        })?;
        let mut url = base_url.clone();
        url.path_segments_mut()
            .map_err(|()| BadClient::BaseUrl(base_url.clone()))?
            .pop_if_empty()
            .extend(path);
        Ok(Self { clients: Arc::new(clients), headers: of_all, url, idle_timeout, read_error })
    }

    /// Builds a POST request; the caller adds headers.
    pub(super) fn post(&self, body: Bytes, trace: Option<Trace>) -> RequestBuilder {
        let post = self.clients.first().post(self.url.clone()).body(body);
        match trace {
            Some(trace) => post.header("traceparent", trace.to_string()),
            None => post,
        }
    }

    /// Sends a request and waits for the headers of its reply.
    pub(super) async fn send(&self, post: RequestBuilder) -> Result<Events, ModelError> {
        let permit = self.clients.permit();
        let sending = permit.client.execute(post.build().map_err(ModelError::from)?);
        let response = timeout(self.idle_timeout, sending)
            .await
            .map_err(|_| ModelError::Idle(self.idle_timeout))?
            .map_err(ModelError::from)?;
        let head = ReplyHead::of(response.headers());
        if !response.status().is_success() {
            return Err(self.read_failure(response, head).await);
        }
        let is_object = is_object(response.headers())?;
        let body = response.bytes_stream();
        let body = if is_object { as_event(body).left_stream() } else { body.right_stream() };
        Ok(Events {
            head,
            is_object,
            stream: Mutex::new(Box::pin(SseByteStream::new(bounded(body)))),
            idle_timeout: self.idle_timeout,
            received_at: Instant::now(),
            content_at: Instant::now(),
            _permit: permit,
        })
    }

    async fn read_failure(&self, response: Response, head: ReplyHead) -> ModelError {
        let status = response.status().as_u16();
        // A server that fails may also fail while it sends the error body.
        let report = match timeout(self.idle_timeout, small_body(response)).await {
            // A proxy in between may send an error page of its own.
            Ok(body) => {
                (self.read_error)(status, &body).unwrap_or_else(|| ErrorReport::of_status(status))
            }
            Err(_) => ErrorReport::of_status(status),
        };
        report.error(Some(status), head)
    }

    /// Sends a request whose response is one JSON object, and reads it within this time.
    pub(super) async fn fetch_object(
        &self,
        post: RequestBuilder,
        within: Duration,
    ) -> Result<Vec<u8>, ModelError> {
        let exchange = async {
            let response = post.send().await.map_err(ModelError::from)?;
            if !response.status().is_success() {
                let head = ReplyHead::of(response.headers());
                return Err(self.read_failure(response, head).await);
            }
            Ok(small_body(response).await)
        };
        timeout(within, exchange).await.map_err(|_| ModelError::Idle(within))?
    }

    /// Returns the endpoint at a path under this one.
    pub(super) fn child(&self, name: &str) -> Self {
        let mut child = self.clone();
        if let Ok(mut path) = child.url.path_segments_mut() {
            path.push(name);
        }
        child
    }

    /// Returns the URL with its last path segment replaced by this name.
    pub(super) fn sibling_url(&self, name: &str) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop().push(name);
        }
        url
    }

    /// The headers of all requests.
    pub(super) const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Builds a GET request to the same server.
    pub(super) fn get(&self, url: Url) -> RequestBuilder {
        self.clients.first().get(url)
    }

    /// The maximum time without a received byte.
    pub(super) const fn idle_timeout(&self) -> Duration {
        self.idle_timeout
    }
}

impl ErrorReport {
    fn of_status(status: u16) -> Self {
        let kind = ErrorKind::of_status(status);
        Self { kind, message: String::new(), paths: Box::default() }
    }

    /// Converts to an error; without a status it was reported inside a stream.
    pub(super) fn error(self, status: Option<u16>, head: ReplyHead) -> ModelError {
        let Self { kind, message, paths } = self;
        ModelError::Api { status, kind, message, paths, head }
    }
}

/// A header value that is marked as sensitive, so that it does not appear in debug output.
pub(super) fn secret_header(prefix: &str, key: &SecretString) -> Result<HeaderValue, BadClient> {
    let text = SecretString::from(format!("{prefix}{}", key.expose_secret()));
    let mut value = HeaderValue::from_str(text.expose_secret()).map_err(|_| BadClient::Header)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Reads the body of an error, or of a small object, up to a limit.
pub(super) async fn small_body(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_SMALL_BODY {
            break;
        }
    }
    body
}

/// Returns true for a reply that is one JSON object: some servers cannot stream. Rejects HTML, which
/// comes from the wrong server, and a retry would not help. Other content types and a missing one are
/// those of a stream.
fn is_object(headers: &HeaderMap) -> Result<bool, ModelError> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("text/html") {
        return Err(ModelError::Malformed(format!("it is of type {essence}")));
    }
    Ok(essence.eq_ignore_ascii_case(JSON))
}

/// The body of a reply that is one JSON object, as one event. Its line breaks are only space.
fn as_event(
    body: impl Stream<Item = reqwest::Result<Bytes>>,
) -> impl Stream<Item = reqwest::Result<Bytes>> {
    let without_breaks = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
    let body = body.map_ok(move |bytes| bytes.iter().map(without_breaks).collect());
    let [start, end] =
        ["data: ", "\n\n"].map(|text| ready(Ok(Bytes::from_static(text.as_bytes()))));
    once(start).chain(body).chain(once(end))
}

/// The time after another one. The operator may set a timeout of any length.
fn after(at: Instant, timeout: Duration) -> Instant {
    const FAR: Duration = Duration::from_hours(24 * 365);
    at + timeout.min(FAR)
}
type SseStream = Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>;

/// The server-sent events of a reply.
pub(super) struct Events {
    head: ReplyHead,
    /// The reply is one JSON object, which is the only event.
    is_object: bool,
    /// Never locked. The mutex lets a run that reads the stream move between threads.
    stream: Mutex<SseStream>,
    idle_timeout: Duration,
    /// The time of the last event, or of the headers.
    received_at: Instant,
    /// The time of the last event with content, or of the headers.
    content_at: Instant,
    /// The request counts until its reply is dropped.
    _permit: ClientPermit,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Events {
    /// The values of the reply's headers.
    pub(super) const fn head(&self) -> &ReplyHead {
        &self.head
    }

    /// Returns the data of the next event that has data, or `None` at the end of the stream.
    ///
    /// Cancel safe: no data is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> Result<Option<String>, ModelError> {
        let patience = self.idle_timeout.saturating_mul(PATIENCE);
        let content_until = after(self.content_at, patience);
        loop {
            let until = content_until.min(after(self.received_at, self.idle_timeout));
            let event = timeout_at(until, self.stream.get_mut().next()).await.map_err(|_| {
                if until == content_until {
                    return ModelError::NoContent(patience);
                }
                ModelError::Idle(self.idle_timeout)
            })?;
            self.received_at = Instant::now();
            let Some(event) = event else { return Ok(None) };
            let event = event.map_err(|error| match exceeded_bound(&error) {
                Some(bytes) => ModelError::TooLarge(bytes),
                None => ModelError::Broken(error.into()),
            })?;
            if event.data.is_some() {
                return Ok(event.data);
            }
        }
    }

    /// The error of a reply without an end.
    pub(super) fn truncated(&self) -> ModelError {
        if self.is_object {
            // It comes from the wrong server, so a retry would not help.
            return ModelError::Malformed(format!("it is of type {JSON}, and no reply"));
        }
        ModelError::Truncated
    }

    /// Notes that the last event had content: it was no ping.
    pub(super) fn note_content(&mut self) {
        self.content_at = self.received_at;
    }
}
