//! Which pages of other origins may use the API from a browser (the CORS protocol).

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use tower_http::cors::CorsLayer;

/// Headers that such a page may send.
const ALLOWED: [&str; 12] = [
    "authorization",
    "x-api-key",
    "content-type",
    "accept",
    "idempotency-key",
    "last-event-id",
    "if-match",
    "if-none-match",
    "prefer",
    "x-request-id",
    "traceparent",
    "tracestate",
];
/// Headers of answers that it may read.
const EXPOSED: [&str; 14] = [
    "location",
    "content-location",
    "link",
    "etag",
    "retry-after",
    "x-request-id",
    "ratelimit",
    "ratelimit-policy",
    "idempotency-replayed",
    "content-disposition",
    "deprecation",
    "sunset",
    "preference-applied",
    "x-should-retry",
];
/// How long a browser may remember this.
const MAX_AGE: Duration = Duration::from_mins(10);

/// Answers preflights, which need no key, and says on every other answer who may read it.
pub(in crate::http) fn layer(origins: &[HeaderValue]) -> CorsLayer {
    CorsLayer::new()
        .allow_origin(origins.to_vec())
        .allow_methods([Method::GET, Method::POST, Method::PATCH, Method::DELETE])
        .allow_headers(ALLOWED.map(HeaderName::from_static))
        .expose_headers(EXPOSED.map(HeaderName::from_static))
        .max_age(MAX_AGE)
}
