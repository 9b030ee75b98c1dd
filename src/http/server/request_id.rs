//! The id, the trace and the log line of each request.
//!
//! A well-formed `x-request-id` or `traceparent` of the caller is kept; otherwise the service makes
//! a new one.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, HeaderValue};
use tracing::field::{Empty, display};
use tracing::{Instrument as _, Span};
use uuid::Uuid;

use crate::domain::ids::{BrowserTokenId, KeyId};
use crate::domain::trace::Trace;
use crate::http::error::{ErrorFormat, write_problem};
use crate::http::server::forwarded::{Origin, public};
use crate::http::server::request_span;
use crate::metrics::Metrics;
use crate::spans::OpenSpan;

const HEADER: &str = "x-request-id";
const TRACE: &str = "traceparent";
/// Paths that probes request all the time. They are neither logged nor traced.
pub(in crate::http) const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Gives a request its id and trace, logs it, and completes its problem document.
pub(in crate::http) async fn layer(
    State(metrics): State<Arc<Metrics>>,
    mut request: Request,
    next: Next,
) -> Response {
    let given = trace_of(request.headers());
    let spanned = request_span::begin(metrics.spans(), &request, given);
    let here = spanned.as_ref().and_then(OpenSpan::place);
    let trace = here.or(given).unwrap_or_else(Trace::begin);
    request.extensions_mut().insert(trace);
    let given = request.headers().get(HEADER).and_then(|value| value.to_str().ok());
    let id = match given {
        Some(id) if is_plain(id) => id.to_owned(),
        _ => format!("req_{}", Uuid::now_v7().simple()),
    };
    let (path, method) = (public(request.uri().path()), request.method().clone());
    let format = ErrorFormat::of(request.uri().path());
    let origin = request.extensions().get::<Origin>();
    let client = origin.map(|origin| display(origin.client));
    let span = tracing::info_span!(
        "http.request", request.id = %id, trace.id = trace.id(), http.method = %method,
        http.path = %path, http.origin = origin.map(display), client.address = client,
        key.id = Empty, token.subject = Empty, browser_token.id = Empty
    );
    let (route, begun) = (request.extensions().get::<MatchedPath>().cloned(), Instant::now());
    let response = next.run(request).instrument(span.clone()).await;
    request_span::end(spanned, response.status());
    span.in_scope(|| log(route.as_ref().map(MatchedPath::as_str), &response, begun));
    let mut response = write_problem(response, format, &method, &path, &id);
    if let Ok(value) = HeaderValue::from_str(&id) {
        if let Some(name) = format.request_id_header() {
            response.headers_mut().insert(name, value.clone());
        }
        response.headers_mut().insert(HEADER, value);
    }
    response
}

/// Writes one log line for a request, when the head of its response is ready.
fn log(route: Option<&str>, response: &Response, begun: Instant) {
    if route.is_some_and(|route| PROBES.contains(&route)) {
        return;
    }
    let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let status = response.status().as_u16();
    tracing::info!(http.route = route, http.status = status, duration_ms, "request completed");
}

/// Adds the id of the key to all log lines of the current request.
pub(in crate::http) fn record_key(id: KeyId) {
    Span::current().record("key.id", display(id));
}

/// Adds the id of the browser token to all log lines of the current request.
pub(in crate::http) fn record_browser_token(id: BrowserTokenId) {
    Span::current().record("browser_token.id", display(id));
}

/// The trace of the caller, if there is exactly one well-formed `traceparent`.
fn trace_of(headers: &HeaderMap) -> Option<Trace> {
    let mut all = headers.get_all(TRACE).iter();
    let named = all.next().filter(|_| all.next().is_none())?;
    named.to_str().ok()?.parse().ok()
}

/// Reports whether an id can be copied into logs and headers.
fn is_plain(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (1..=128).contains(&id.len()) && id.chars().all(is_plain)
}
