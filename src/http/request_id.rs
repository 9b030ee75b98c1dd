//! Every request has an id and belongs to a trace: the caller's if they are plain ones, else ones of
//! ours.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, HeaderValue};
use tracing::Instrument as _;
use tracing::field::{Empty, display};
use uuid::Uuid;

use super::error::write_problem;
use super::forwarded::{Origin, public};
use crate::domain::trace::Trace;

const HEADER: &str = "x-request-id";
const TRACE: &str = "traceparent";

pub(super) async fn layer(mut request: Request, next: Next) -> Response {
    let trace = trace_of(request.headers()).unwrap_or_else(Trace::begin);
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
        token.subject = Empty
    );
    let response = next.run(request).instrument(span).await;
    let mut response = write_problem(response, &path, &id);
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(HEADER, value);
    }
    response
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
