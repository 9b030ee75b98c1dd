//! Why a request to the service came to nothing.

use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use serde::Deserialize;

use super::Client;
use crate::cli::terminal::{one_line, safe};

/// How much is read of what says why.
const MAX_BODY: usize = 64 * 1024;

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum Failure {
    /// Nobody answered.
    #[error(
        "{place} cannot be reached: {why}{}",
        if *.is_first { "; start a service with `twostep serve`, or name one with --server" } else { "" }
    )]
    Away { place: String, why: String, retry_after: Option<Duration>, is_first: bool },
    /// The service said no.
    #[error("{}", told(.0))]
    Refused(Problem),
    /// Something else answered.
    #[error("{place} does not answer as the service does: {what}")]
    Stranger { place: String, what: String },
}

/// What the service says of a request that it does not serve.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Problem {
    status: u16,
    code: String,
    detail: String,
    #[serde(default)]
    errors: Vec<Wrong>,
    #[serde(skip)]
    retry_after: Option<Duration>,
}

#[derive(Debug, Deserialize)]
struct Wrong {
    pointer: String,
    message: String,
}

fn told(problem: &Problem) -> String {
    let mut text = problem.detail.clone();
    // The first of them is told by the detail.
    for Wrong { pointer, message } in problem.errors.iter().skip(1) {
        let _ = write!(text, "; {pointer} {message}");
    }
    if problem.status == 401 {
        text.push_str("; say it with TWOSTEP_KEY or --key");
    }
    safe(&text).into_owned()
}

impl Failure {
    /// A request that was not answered.
    pub(super) fn unanswered(client: &Client, is_first: bool, error: reqwest::Error) -> Self {
        let is_first = is_first && error.is_connect();
        Self::Away { place: client.place(), why: cause(error), retry_after: None, is_first }
    }

    /// An answer that is not the one that was hoped for.
    pub(super) async fn of(client: &Client, mut response: Response) -> Self {
        let (status, place) = (response.status(), client.place());
        let retry_after = retry_after(&response);
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let kind = header(CONTENT_TYPE).unwrap_or("no type").to_owned();
        let to = header(LOCATION).map(one_line);
        let mut body = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_BODY {
                break;
            }
        }
        if let Ok(problem) = serde_json::from_slice::<Problem>(&body) {
            return Self::Refused(Problem { retry_after, ..problem });
        }
        if is_away(status) {
            let why = format!("what stands before it answers {status}");
            return Self::Away { place, why, retry_after, is_first: false };
        }
        let what = match to {
            Some(to) => format!("{status}, to {to}; name that with --server if it is the service"),
            None => format!("{status} with {}", one_line(&kind)),
        };
        Self::Stranger { place, what }
    }

    /// An answer that ends too early, or is in no form that is known.
    pub(in crate::cli) fn strange(client: &Client, what: &str) -> Self {
        Self::Stranger { place: client.place(), what: what.to_owned() }
    }

    /// Whether the same request may be served a little later.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Away { is_first, .. } => !is_first,
            Self::Refused(problem) => matches!(problem.status, 408 | 429 | 502 | 503 | 504),
            Self::Stranger { .. } => false,
        }
    }

    /// For how long the service, or what stands before it, wants to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Away { retry_after, .. } => *retry_after,
            Self::Refused(problem) => problem.retry_after,
            Self::Stranger { .. } => None,
        }
    }

    /// The service's word for what is wrong.
    pub(in crate::cli) fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(problem) => Some(&problem.code),
            Self::Away { .. } | Self::Stranger { .. } => None,
        }
    }
}

/// What proxies answer when there is nobody behind them.
fn is_away(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 429 | 502 | 503 | 504)
}

fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

/// The innermost cause, which says most. The URL may have a password.
fn cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    one_line(&cause.to_string())
}
