//! A receiver of webhooks.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// A request that a receiver got.
#[derive(Debug, Clone)]
pub(super) struct ReceivedRequest {
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl ReceivedRequest {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(super) fn kind(&self) -> String {
        self.json()["type"].as_str().unwrap().to_owned()
    }
}

/// A response of the receiver.
#[derive(Debug, Clone, Copy)]
pub(super) enum ScriptedResponse {
    Status(u16),
    Never,
}

#[derive(Debug, Default)]
struct ReceiverState {
    requests: Mutex<Vec<ReceivedRequest>>,
    responses: Mutex<VecDeque<ScriptedResponse>>,
    arrived: Notify,
}

/// A server that gives the scripted responses first, and status 204 to all later requests.
pub(super) struct Receiver {
    pub(super) url: String,
    state: Arc<ReceiverState>,
    _task: AbortOnDropHandle<()>,
}

impl Receiver {
    pub(super) async fn start(responses: &[ScriptedResponse]) -> Self {
        let state = Arc::new(ReceiverState {
            responses: Mutex::new(responses.iter().copied().collect()),
            ..ReceiverState::default()
        });
        let router = Router::new().fallback(handle).with_state(Arc::clone(&state));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook?token=planted", listener.local_addr().unwrap());
        let serving = async { axum::serve(listener, router).await.unwrap() };
        let task = AbortOnDropHandle::new(TaskTracker::new().spawn(serving));
        Self { url, state, _task: task }
    }

    /// Waits for this number of requests and returns all requests so far.
    pub(super) async fn requests(&self, count: usize) -> Vec<ReceivedRequest> {
        let enough = async {
            loop {
                let arrived = self.state.arrived.notified();
                let requests = self.state.requests.lock().unwrap().clone();
                if requests.len() >= count {
                    return requests;
                }
                arrived.await;
            }
        };
        let requests = timeout(Duration::from_secs(30), enough).await;
        requests.unwrap_or_else(|_| {
            let received = self.state.requests.lock().unwrap();
            panic!("received {} of {count} requests: {received:?}", received.len())
        })
    }

    /// The number of requests so far.
    pub(super) fn count(&self) -> usize {
        self.state.requests.lock().unwrap().len()
    }
}

async fn handle(
    State(state): State<Arc<ReceiverState>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let body = String::from_utf8(body.to_vec()).unwrap();
    let response =
        state.responses.lock().unwrap().pop_front().unwrap_or(ScriptedResponse::Status(204));
    state.requests.lock().unwrap().push(ReceivedRequest { headers, body });
    state.arrived.notify_waiters();
    match response {
        ScriptedResponse::Status(status) => StatusCode::from_u16(status).unwrap(),
        ScriptedResponse::Never => pending().await,
    }
}
