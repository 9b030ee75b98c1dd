//! A reverse proxy in front of a service, with faults that break event streams.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use futures::{FutureExt as _, StreamExt as _};
use reqwest::Client;
use tokio::net::TcpListener;
use tokio::sync::mpsc::unbounded_channel;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::support::TestApp;

/// The faults of a proxy.
#[derive(Debug, Clone, Default)]
pub(super) struct ProxyFaults {
    /// Forwards a body only when it is complete.
    pub(super) buffers: bool,
    /// Forwards what has arrived only after each of these intervals.
    pub(super) groups: Option<Duration>,
    /// Adds `Content-Encoding: gzip` to event streams.
    pub(super) compresses: bool,
    /// Aborts a response after this time without data.
    pub(super) idle_timeout: Option<Duration>,
    /// Headers that it removes from requests and responses.
    pub(super) dropped_headers: &'static [&'static str],
    /// Reads on from the service after its client has disconnected.
    pub(super) ignores_disconnects: bool,
    /// The path prefix that it removes.
    pub(super) prefix: &'static str,
    /// Its `Server` header.
    pub(super) server: Option<&'static str>,
}

/// A reverse proxy in front of a service.
pub(super) struct FaultyProxy {
    pub(super) url: String,
    _stop: DropGuard,
}

struct ProxyState {
    faults: ProxyFaults,
    url: String,
    client: Client,
    tasks: TaskTracker,
}

impl FaultyProxy {
    pub(super) async fn of(app: &TestApp, faults: ProxyFaults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}{}/", listener.local_addr().unwrap(), faults.prefix);
        let client = Client::builder().no_proxy().build().unwrap();
        let state = ProxyState { faults, url: app.url(""), client, tasks: TaskTracker::new() };
        let router = Router::new().fallback(forward).with_state(Arc::new(state));
        let stop = CancellationToken::new();
        let serve = async move { axum::serve(listener, router).await.unwrap() };
        TaskTracker::new().spawn(stop.clone().run_until_cancelled_owned(serve));
        Self { url, _stop: stop.drop_guard() }
    }
}

async fn forward(State(state): State<Arc<ProxyState>>, request: Request) -> Response {
    let faults = &state.faults;
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().unwrap().as_str();
    let url = format!("{}{}", state.url, path.strip_prefix(faults.prefix).unwrap());
    let mut headers = parts.headers;
    for name in ["host", "content-length"].iter().chain(faults.dropped_headers) {
        headers.remove(*name);
    }
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let response = state.client.request(parts.method, url).headers(headers).body(body).send().await;
    let response = response.unwrap();
    let (status, mut headers) = (response.status(), response.headers().clone());
    for name in ["transfer-encoding", "content-length"].iter().chain(faults.dropped_headers) {
        headers.remove(*name);
    }
    let is_stream = headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
    if faults.compresses && is_stream {
        headers.insert("content-encoding", "gzip".parse().unwrap());
    }
    if let Some(name) = faults.server {
        headers.insert("server", name.parse().unwrap());
    }
    (status, headers, state.body(response).await).into_response()
}

impl ProxyState {
    async fn body(&self, response: reqwest::Response) -> Body {
        let faults = self.faults.clone();
        if faults.buffers {
            return Body::from(response.bytes().await.unwrap());
        }
        let mut chunks = response.bytes_stream();
        if let Some(interval) = faults.groups {
            return Body::from_stream(futures::stream::unfold(
                chunks,
                move |mut chunks| async move {
                    let mut group = chunks.next().await?.ok()?.to_vec();
                    tokio::time::sleep(interval).await;
                    while let Some(Some(Ok(chunk))) = chunks.next().now_or_never() {
                        group.extend_from_slice(&chunk);
                    }
                    Some((Ok::<_, Infallible>(group), chunks))
                },
            ));
        }
        if faults.ignores_disconnects {
            let (sender, mut receiver) = unbounded_channel();
            self.tasks.spawn(async move {
                while let Some(chunk) = chunks.next().await {
                    let _ = sender.send(chunk);
                }
            });
            let next = futures::stream::poll_fn(move |context| receiver.poll_recv(context));
            return Body::from_stream(next);
        }
        let Some(idle_timeout) = faults.idle_timeout else { return Body::from_stream(chunks) };
        Body::from_stream(futures::stream::unfold(chunks, move |mut chunks| async move {
            match tokio::time::timeout(idle_timeout, chunks.next()).await {
                Ok(chunk) => Some((chunk?.map_err(std::io::Error::other), chunks)),
                Err(elapsed) => Some((Err(std::io::Error::other(elapsed)), chunks)),
            }
        }))
    }
}
