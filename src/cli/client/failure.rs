//! Errors of requests to the service.

use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use serde::Deserialize;

use super::Client;
use crate::cli::terminal::{one_line, safe};

/// Maximum number of bytes that are read of an error response.
const MAX_BODY: usize = 64 * 1024;

/// An error of a request to the service.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum Failure {
    /// No response.
    #[error(
        "{location} cannot be reached: {why}{}",
        if *.is_first { "; start a service with `twostep serve`, or set --server" } else { "" }
    )]
    Unavailable { location: String, why: String, retry_after: Option<Duration>, is_first: bool },
    /// The service rejected the request.
    #[error("{}", describe(.0))]
    Refused(Problem),
    /// The response does not come from the service.
    #[error("unexpected response from {location}: {what}")]
    Unexpected { location: String, what: String },
}

/// The problem document of a rejected request.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Problem {
    status: u16,
    code: String,
    detail: String,
    #[serde(default)]
    errors: Vec<FieldError>,
    #[serde(skip)]
    retry_after: Option<Duration>,
}

#[derive(Debug, Deserialize)]
struct FieldError {
    pointer: String,
    parameter: Option<String>,
    header: Option<String>,
    message: String,
}

fn describe(problem: &Problem) -> String {
    let mut text = problem.detail.clone();
    // The detail already contains the first one.
    for FieldError { pointer, parameter, header, message } in problem.errors.iter().skip(1) {
        let name = parameter.as_ref().or(header.as_ref()).unwrap_or(pointer);
        let _ = write!(text, "; {name} {message}");
    }
    if problem.status == 401 {
        text.push_str("; set it with TWOSTEP_KEY or --key");
    }
    safe(&text).into_owned()
}

impl Failure {
    /// The error of a request without a response.
    pub(super) fn no_response(client: &Client, is_first: bool, error: reqwest::Error) -> Self {
        let is_first = is_first && error.is_connect();
        Self::Unavailable {
            location: client.display_url(),
            why: cause(error),
            retry_after: None,
            is_first,
        }
    }

    /// The error of a response without a success status.
    pub(super) async fn of(client: &Client, mut response: Response) -> Self {
        let (status, location) = (response.status(), client.display_url());
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
        if is_unavailable(status) {
            let why = format!("the proxy in front of it returned {status}");
            return Self::Unavailable { location, why, retry_after, is_first: false };
        }
        let what = match to {
            Some(to) => {
                format!("{status}, redirect to {to}; set --server to that URL if it is the service")
            }
            None => format!("{status} with {}", one_line(&kind)),
        };
        Self::Unexpected { location, what }
    }

    /// The error of a response that is incomplete or has an unknown form.
    pub(in crate::cli) fn unexpected(client: &Client, what: &str) -> Self {
        Self::Unexpected { location: client.display_url(), what: what.to_owned() }
    }

    /// Returns true if a retry may succeed.
    pub(super) fn is_temporary(&self) -> bool {
        match self {
            Self::Unavailable { is_first, .. } => !is_first,
            Self::Refused(problem) => matches!(problem.status, 408 | 429 | 502 | 503 | 504),
            Self::Unexpected { .. } => false,
        }
    }

    /// The delay that the service or a proxy requests in `Retry-After`.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable { retry_after, .. } => *retry_after,
            Self::Refused(problem) => problem.retry_after,
            Self::Unexpected { .. } => None,
        }
    }

    /// The error code of the service.
    pub(in crate::cli) fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(problem) => Some(&problem.code),
            Self::Unavailable { .. } | Self::Unexpected { .. } => None,
        }
    }
}

/// Returns true for the status codes that proxies return while the service is unavailable.
fn is_unavailable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 429 | 502 | 503 | 504)
}

fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

/// The innermost cause of an error, which is the most specific one. The URL is removed because it
/// may contain a password.
fn cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    one_line(&cause.to_string())
}
