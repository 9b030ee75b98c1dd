//! Access from web pages of other origins (the CORS protocol).

use std::time::Duration;

use axum::extract::Request;
use http::header::ACCESS_CONTROL_REQUEST_HEADERS;
use http::{HeaderName, HeaderValue, Method};
use tower_http::cors::{AllowHeaders, CorsLayer};

/// Response headers that pages may read.
const EXPOSED: [&str; 20] = [
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
    "www-authenticate",
    "allow",
    "accept",
    "accept-post",
    "accept-patch",
    "accept-encoding",
];
/// The time for which a browser may cache the result of a preflight request: the maximum of Chromium.
/// The responses to later requests still state whether the origin is allowed.
const MAX_AGE: Duration = Duration::from_hours(2);

/// Removes malformed names from the headers that a preflight request asks for, because the response
/// repeats them.
pub(in crate::http) async fn keep_valid_names(mut request: Request) -> Request {
    let headers = request.headers_mut();
    let lists = headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter();
    let names = lists.flat_map(|list| list.as_bytes().split(|byte| *byte == b','));
    let names = names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok());
    let valid: Vec<String> = names.map(|name| name.to_string()).collect();
    if headers.remove(ACCESS_CONTROL_REQUEST_HEADERS).is_some()
        && !valid.is_empty()
        && let Ok(list) = HeaderValue::from_str(&valid.join(","))
    {
        headers.insert(ACCESS_CONTROL_REQUEST_HEADERS, list);
    }
    request
}

/// Answers preflight requests, which need no key, and adds the CORS headers to all other responses.
pub(in crate::http) fn layer(origins: &[HeaderValue]) -> CorsLayer {
    CorsLayer::new()
        .allow_origin(origins.to_vec())
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        // SDKs add headers of their own to every request, such as `x-stainless-lang`. Credentials of a
        // browser, such as cookies, are never allowed.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(EXPOSED.map(HeaderName::from_static))
        .max_age(MAX_AGE)
}
