//! One probe stream with the arrival times of its data.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder, Response, Url, Version};
use tokio::time::{Instant, timeout};

use crate::cli::client::api_url;

/// Time limit for the response headers.
const HEAD: Duration = Duration::from_secs(15);

/// The service that is checked.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) http: reqwest::Client,
    pub(super) base: Url,
}

impl Target {
    pub(super) fn get(&self, path: &[&str], query: &[(&str, &str)]) -> RequestBuilder {
        let mut url = api_url(&self.base, path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.http.get(url).timeout(Duration::from_mins(2))
    }

    /// A request with another method than GET.
    pub(super) fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        self.http.request(method, api_url(&self.base, path)).timeout(Duration::from_mins(2))
    }

    /// The path under which clients reach the service, without the slash at its end.
    pub(super) fn prefix(&self) -> &str {
        self.base.path().trim_end_matches('/')
    }

    /// A request for a stream of evenly spaced events.
    pub(super) fn stream(&self, events: usize, every: Duration, silent: bool) -> RequestBuilder {
        let (events, every) = (events.to_string(), every.as_millis().to_string());
        let silent = silent.to_string();
        let query = [("events", &*events), ("every_ms", &*every), ("silent", &*silent)];
        let request = self.get(&["probe", "stream"], &query);
        request.header("accept", "text/event-stream")
    }
}

/// A received stream.
#[derive(Debug)]
pub(super) struct ReceivedStream {
    pub(super) version: Version,
    pub(super) headers: HeaderMap,
    /// Arrival time of each chunk, after the request was sent.
    pub(super) times: Vec<Duration>,
    /// Arrival time of each event.
    pub(super) events: Vec<Duration>,
    pub(super) text: String,
    /// True if the stream ended cleanly.
    pub(super) is_whole: bool,
    /// Time at which it ended.
    pub(super) ended: Duration,
}

/// The error of a stream that could not be opened.
#[derive(Debug)]
pub(super) struct StreamError {
    pub(super) why: String,
    /// True if there was no response.
    pub(super) is_unavailable: bool,
}

/// Sends a request and returns the response if its status is a success.
pub(super) async fn head(request: RequestBuilder) -> Result<Response, StreamError> {
    let sent = timeout(HEAD, request.send()).await;
    let Ok(sent) = sent else {
        let why = format!("no response within {} s", HEAD.as_secs());
        return Err(StreamError { why, is_unavailable: true });
    };
    let answer = sent.map_err(|error| StreamError { why: cause(error), is_unavailable: true })?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let hint = match status.as_u16() {
        401 => ": set a key with TWOSTEP_KEY or --key",
        404 => ": the service is not at this path",
        502..=504 => ": the proxy cannot reach the service",
        _ => "",
    };
    Err(StreamError { why: format!("the response is {status}{hint}"), is_unavailable: false })
}

/// Reads a stream to its end.
pub(super) async fn listen(request: RequestBuilder) -> Result<ReceivedStream, StreamError> {
    let begun = Instant::now();
    let mut answer = head(request).await?;
    let mut arrived = ReceivedStream {
        version: answer.version(),
        headers: answer.headers().clone(),
        times: Vec::new(),
        events: Vec::new(),
        text: String::new(),
        is_whole: false,
        ended: Duration::ZERO,
    };
    loop {
        match answer.chunk().await {
            Ok(Some(piece)) => {
                arrived.times.push(begun.elapsed());
                arrived.text.push_str(&String::from_utf8_lossy(&piece));
                arrived.events.resize(arrived.numbers().len(), begun.elapsed());
            }
            end => {
                arrived.is_whole = end.is_ok();
                arrived.ended = begun.elapsed();
                return Ok(arrived);
            }
        }
    }
}

impl ReceivedStream {
    /// The ids of its events.
    pub(super) fn numbers(&self) -> Vec<i64> {
        let lines = self.text.lines();
        lines.filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect()
    }
}

/// Returns the innermost cause of an error, without the URL.
pub(super) fn cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
