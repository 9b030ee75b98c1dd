//! The record of requests, for tests that inspect them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use axum::http::{HeaderMap, Method};
use bytes::Bytes;

/// A recorded request and its outcome.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// The method.
    pub method: Method,
    /// The path, with the query if there is one.
    pub path: String,
    /// The headers. The API key is marked as sensitive, so `{:?}` does not show it.
    pub headers: HeaderMap,
    /// The body exactly as received.
    pub body: Bytes,
    /// The reason of a refusal by the rules of the API. Scripted errors do not count.
    pub refusal: Option<String>,
    /// The status of the response.
    pub status: u16,
}

/// The position of a request in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrival(u64);

/// The latest requests, at most `limit` of them.
#[derive(Debug)]
pub(crate) struct Recorder {
    limit: usize,
    arrivals: AtomicU64,
    requests: Mutex<VecDeque<(Arrival, RecordedRequest)>>,
}

impl Recorder {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, arrivals: AtomicU64::new(0), requests: Mutex::default() }
    }

    /// True if requests are recorded.
    pub(crate) fn is_on(&self) -> bool {
        self.limit > 0
    }

    /// Registers the arrival of a request.
    pub(crate) fn arrival(&self) -> Arrival {
        Arrival(self.arrivals.fetch_add(1, Ordering::Relaxed))
    }

    /// Records a request in the order of arrival: a later request can finish first.
    pub(crate) fn add(&self, arrival: Arrival, mut request: RecordedRequest) {
        for key in ["x-api-key", "authorization"] {
            if let Some(value) = request.headers.get_mut(key) {
                value.set_sensitive(true);
            }
        }
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.len() >= self.limit {
            requests.pop_front();
        }
        let at = requests.partition_point(|(other, _)| *other < arrival);
        requests.insert(at, (arrival, request));
    }

    pub(crate) fn list(&self) -> Vec<RecordedRequest> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.iter().map(|(_, request)| request.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;

    fn to(path: &str) -> RecordedRequest {
        RecordedRequest {
            method: Method::POST,
            path: path.to_owned(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            refusal: None,
            status: StatusCode::OK.as_u16(),
        }
    }

    #[test]
    fn requests_are_listed_in_order_of_arrival() {
        let recorder = Recorder::new(2);
        let arrivals = [(); 3].map(|()| recorder.arrival());
        for (nth, path) in [(0, "/a"), (2, "/c"), (1, "/b")] {
            recorder.add(arrivals[nth], to(path));
        }
        let paths: Vec<String> = recorder.list().into_iter().map(|one| one.path).collect();
        assert_eq!(paths, ["/b", "/c"]);
    }
}
