//! Access from web pages of other origins (the CORS protocol).

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use tower_http::cors::CorsLayer;

/// Request headers that pages may send.
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
/// Response headers that pages may read.
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
/// The time for which a browser may cache the result of a preflight request.
const MAX_AGE: Duration = Duration::from_mins(10);

/// Answers preflight requests, which need no key, and adds the CORS headers to all other responses.
pub(in crate::http) fn layer(origins: &[HeaderValue]) -> CorsLayer {
    CorsLayer::new()
        .allow_origin(origins.to_vec())
        .allow_methods([Method::GET, Method::POST, Method::PATCH, Method::DELETE])
        .allow_headers(ALLOWED.map(HeaderName::from_static))
        .expose_headers(EXPOSED.map(HeaderName::from_static))
        .max_age(MAX_AGE)
}
