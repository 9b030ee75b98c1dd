//! Somebody who is told.

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

/// What a receiver was told.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl Told {
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

/// What it answers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    Status(u16),
    Never,
}

#[derive(Debug, Default)]
struct Desk {
    told: Mutex<Vec<Told>>,
    answers: Mutex<VecDeque<Answer>>,
    came: Notify,
}

/// A server that takes what it is told, but for the first answers that were agreed on.
pub(super) struct Receiver {
    pub(super) url: String,
    desk: Arc<Desk>,
    _task: AbortOnDropHandle<()>,
}

impl Receiver {
    pub(super) async fn start(answers: &[Answer]) -> Self {
        let desk = Arc::new(Desk {
            answers: Mutex::new(answers.iter().copied().collect()),
            ..Desk::default()
        });
        let router = Router::new().fallback(take).with_state(Arc::clone(&desk));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook?token=planted", listener.local_addr().unwrap());
        let serving = async { axum::serve(listener, router).await.unwrap() };
        let task = AbortOnDropHandle::new(TaskTracker::new().spawn(serving));
        Self { url, desk, _task: task }
    }

    /// What it was told, once there are so many.
    pub(super) async fn told(&self, count: usize) -> Vec<Told> {
        let enough = async {
            loop {
                let came = self.desk.came.notified();
                let told = self.desk.told.lock().unwrap().clone();
                if told.len() >= count {
                    return told;
                }
                came.await;
            }
        };
        let told = timeout(Duration::from_secs(30), enough).await;
        told.unwrap_or_else(|_| panic!("{:?} is all that came", self.desk.told.lock().unwrap()))
    }

    /// How often it was told something.
    pub(super) fn count(&self) -> usize {
        self.desk.told.lock().unwrap().len()
    }
}

async fn take(State(desk): State<Arc<Desk>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let body = String::from_utf8(body.to_vec()).unwrap();
    let answer = desk.answers.lock().unwrap().pop_front().unwrap_or(Answer::Status(204));
    desk.told.lock().unwrap().push(Told { headers, body });
    desk.came.notify_waiters();
    match answer {
        Answer::Status(status) => StatusCode::from_u16(status).unwrap(),
        Answer::Never => pending().await,
    }
}
