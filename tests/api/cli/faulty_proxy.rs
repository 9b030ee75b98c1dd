//! Something that stands before a service, as proxies do, and does what they should not.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use reqwest::Client;
use tokio::net::TcpListener;
use tokio::sync::mpsc::unbounded_channel;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::support::TestApp;

/// What it does.
#[derive(Debug, Clone, Default)]
pub(super) struct Habits {
    /// Passes a body on when it has all of it.
    pub(super) buffers: bool,
    /// Says that it compresses what it passes on.
    pub(super) compresses: bool,
    /// Takes so much silence for an end.
    pub(super) cuts_after: Option<Duration>,
    /// Headers that it loses, of requests and of answers.
    pub(super) loses: &'static [&'static str],
    /// Listens on when its client has left.
    pub(super) listens_on: bool,
    /// The path that it takes away.
    pub(super) prefix: &'static str,
    /// What it calls itself.
    pub(super) server: Option<&'static str>,
}

/// A proxy before a service.
pub(super) struct Front {
    pub(super) url: String,
    _stop: DropGuard,
}

struct Behind {
    habits: Habits,
    url: String,
    client: Client,
    tasks: TaskTracker,
}

impl Front {
    pub(super) async fn of(app: &TestApp, habits: Habits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}{}/", listener.local_addr().unwrap(), habits.prefix);
        let client = Client::builder().no_proxy().build().unwrap();
        let behind = Behind { habits, url: app.url(""), client, tasks: TaskTracker::new() };
        let router = Router::new().fallback(pass).with_state(Arc::new(behind));
        let stop = CancellationToken::new();
        let serve = async move { axum::serve(listener, router).await.unwrap() };
        TaskTracker::new().spawn(stop.clone().run_until_cancelled_owned(serve));
        Self { url, _stop: stop.drop_guard() }
    }
}

async fn pass(State(behind): State<Arc<Behind>>, request: Request) -> Response {
    let habits = &behind.habits;
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().unwrap().as_str();
    let url = format!("{}{}", behind.url, path.strip_prefix(habits.prefix).unwrap());
    let mut headers = parts.headers;
    for name in ["host", "content-length"].iter().chain(habits.loses) {
        headers.remove(*name);
    }
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let sent = behind.client.request(parts.method, url).headers(headers).body(body).send().await;
    let answer = sent.unwrap();
    let (status, mut headers) = (answer.status(), answer.headers().clone());
    for name in ["transfer-encoding", "content-length"].iter().chain(habits.loses) {
        headers.remove(*name);
    }
    if habits.compresses && headers["content-type"] == "text/event-stream" {
        headers.insert("content-encoding", "gzip".parse().unwrap());
    }
    if let Some(name) = habits.server {
        headers.insert("server", name.parse().unwrap());
    }
    (status, headers, behind.body(answer).await).into_response()
}

impl Behind {
    async fn body(&self, answer: reqwest::Response) -> Body {
        let habits = self.habits.clone();
        if habits.buffers {
            return Body::from(answer.bytes().await.unwrap());
        }
        let mut pieces = answer.bytes_stream();
        if habits.listens_on {
            let (sender, mut receiver) = unbounded_channel();
            self.tasks.spawn(async move {
                while let Some(piece) = pieces.next().await {
                    let _ = sender.send(piece);
                }
            });
            let next = futures::stream::poll_fn(move |context| receiver.poll_recv(context));
            return Body::from_stream(next);
        }
        let Some(patience) = habits.cuts_after else { return Body::from_stream(pieces) };
        Body::from_stream(futures::stream::unfold(pieces, move |mut pieces| async move {
            match tokio::time::timeout(patience, pieces.next()).await {
                Ok(piece) => Some((piece?.map_err(std::io::Error::other), pieces)),
                Err(late) => Some((Err(std::io::Error::other(late)), pieces)),
            }
        }))
    }
}
