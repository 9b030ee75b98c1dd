//! Every request has an id and belongs to a trace: the caller's if they are plain ones, else ones of
//! ours.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, HeaderValue};
use tracing::field::{Empty, display};
use tracing::{Instrument as _, Span};
use uuid::Uuid;

use crate::domain::ids::KeyId;
use crate::domain::trace::Trace;
use crate::http::error::write_problem;
use crate::http::server::forwarded::{Origin, public};
use crate::http::server::request_span;
use crate::metrics::Metrics;
use crate::spans::Open;

const HEADER: &str = "x-request-id";
const TRACE: &str = "traceparent";
/// What is asked all the time, and about nobody's work.
pub(in crate::http) const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

pub(in crate::http) async fn layer(
    State(metrics): State<Arc<Metrics>>,
    mut request: Request,
    next: Next,
) -> Response {
    let given = trace_of(request.headers());
    let spanned = request_span::begin(metrics.spans(), &request, given);
    let here = spanned.as_ref().and_then(Open::place);
    let trace = here.or(given).unwrap_or_else(Trace::begin);
    request.extensions_mut().insert(trace);
    let given = request.headers().get(HEADER).and_then(|value| value.to_str().ok());
    let id = match given {
        Some(id) if is_plain(id) => id.to_owned(),
        _ => format!("req_{}", Uuid::now_v7().simple()),
    };
    let path = public(request.uri().path());
    let origin = request.extensions().get::<Origin>();
    let client = origin.map(|origin| display(origin.client));
    let span = tracing::info_span!(
        "http.request", request.id = %id, trace.id = trace.id(), http.method = %request.method(),
        http.path = %path, http.origin = origin.map(display), client.address = client,
        key.id = Empty, token.subject = Empty
    );
    let (route, begun) = (request.extensions().get::<MatchedPath>().cloned(), Instant::now());
    let response = next.run(request).instrument(span.clone()).await;
    request_span::end(spanned, response.status());
    span.in_scope(|| log(route.as_ref().map(MatchedPath::as_str), &response, begun));
    let mut response = write_problem(response, &path, &id);
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(HEADER, value);
    }
    response
}

/// One line a request, when the head of its answer is there.
fn log(route: Option<&str>, response: &Response, begun: Instant) {
    if route.is_some_and(|route| PROBES.contains(&route)) {
        return;
    }
    let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let status = response.status().as_u16();
    tracing::info!(http.route = route, http.status = status, duration_ms, "answered");
}

/// Says in all log lines of the request whose key it has.
pub(in crate::http) fn tell_key(id: KeyId) {
    Span::current().record("key.id", display(id));
}

/// The trace that the caller names, if there is one and it is well formed.
fn trace_of(headers: &HeaderMap) -> Option<Trace> {
    let mut all = headers.get_all(TRACE).iter();
    let named = all.next().filter(|_| all.next().is_none())?;
    named.to_str().ok()?.parse().ok()
}

/// What may go into logs and headers as it is.
fn is_plain(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (1..=128).contains(&id.len()) && id.chars().all(is_plain)
}
