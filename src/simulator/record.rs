//! What the simulator was asked, for tests that look at requests.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use axum::http::{HeaderMap, Method};
use bytes::Bytes;

/// One request and how it went.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// The method.
    pub method: Method,
    /// The path, with the query if there was one.
    pub path: String,
    /// The headers; the key is marked as sensitive and does not show in `{:?}`.
    pub headers: HeaderMap,
    /// The body exactly as received.
    pub body: Bytes,
    /// Why the simulator refused the request as the real API would; scripted errors are not here.
    pub refusal: Option<String>,
    /// The status of the response.
    pub status: u16,
}

/// The last requests, at most `limit` of them.
#[derive(Debug)]
pub(crate) struct Recorder {
    limit: usize,
    requests: Mutex<VecDeque<RecordedRequest>>,
}

impl Recorder {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, requests: Mutex::default() }
    }

    /// Whether a request is worth building a record of.
    pub(crate) fn is_on(&self) -> bool {
        self.limit > 0
    }

    pub(crate) fn add(&self, mut request: RecordedRequest) {
        for key in ["x-api-key", "authorization"] {
            if let Some(value) = request.headers.get_mut(key) {
                value.set_sensitive(true);
            }
        }
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.len() >= self.limit {
            requests.pop_front();
        }
        requests.push_back(request);
    }

    pub(crate) fn list(&self) -> Vec<RecordedRequest> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.iter().cloned().collect()
    }
}
