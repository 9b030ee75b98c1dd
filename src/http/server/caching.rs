//! The caching headers of all responses.
//!
//! A response belongs to the caller whose key it was requested with. A shared cache between the
//! service and its callers, which knows nothing of keys, would otherwise serve the list of one
//! tenant to another tenant.

use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::http::extract::conditions::is_known;
use crate::http::openapi::page::SCRIPT_PATH;
use crate::http::page;

/// The documents that are the same for all callers. Their handlers decide about caching.
const SAME_FOR_ALL: [&str; 3] = ["/openapi.json", "/docs", SCRIPT_PATH];
/// The request headers that identify the caller.
const VARIES_BY: HeaderValue = HeaderValue::from_static("authorization, x-api-key");
const NEVER_STORED: HeaderValue = HeaderValue::from_static("private, no-store");
/// A browser may keep a response with a version, and asks the service before each use.
const REVALIDATED: HeaderValue = HeaderValue::from_static("private, no-cache");
/// Proxies must not compress a stream either: they would collect its events.
const STREAMED: HeaderValue = HeaderValue::from_static("private, no-cache, no-store, no-transform");

/// Sets `Cache-Control` and `Vary` on every response, errors included, except successful responses
/// with documents that are the same for all callers.
pub(in crate::http) async fn layer(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let is_same_for_all = route.is_some_and(|route| {
        let mut patterns = SAME_FOR_ALL.iter().chain(&page::PATTERNS);
        patterns.any(|pattern| *pattern == route.as_str())
    });
    let conditions = request.method().is_safe().then(|| request.headers().clone());
    let mut response = next.run(request).await;
    if !(is_same_for_all && response.status().is_success()) {
        let policy = policy_of(response.headers());
        response.headers_mut().insert(CACHE_CONTROL, policy);
        // Appended: the CORS layer varies by origin.
        response.headers_mut().append(VARY, VARIES_BY);
    }
    match conditions {
        Some(conditions) => unless_known(response, &conditions),
        None => response,
    }
}

/// The response, or 304 if the client has its content already.
fn unless_known(mut response: Response, conditions: &HeaderMap) -> Response {
    let etag = response.headers().get(ETAG).filter(|_| response.status() == StatusCode::OK);
    if etag.is_some_and(|etag| is_known(conditions, etag)) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = Body::empty();
        response.headers_mut().remove(CONTENT_TYPE);
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    response
}

fn policy_of(headers: &HeaderMap) -> HeaderValue {
    let set = headers.get(CACHE_CONTROL).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if set.contains("no-transform") {
        STREAMED
    } else if headers.contains_key(ETAG) && !set.contains("no-store") {
        REVALIDATED
    } else {
        NEVER_STORED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_allows_a_private_cache_that_asks_before_each_use() {
        let policy = |headers: &[(http::HeaderName, &'static str)]| {
            let headers = headers.iter().cloned();
            policy_of(
                &headers.map(|(name, value)| (name, HeaderValue::from_static(value))).collect(),
            )
        };
        assert_eq!(policy(&[]), NEVER_STORED);
        assert_eq!(policy(&[(ETAG, "\"v1\"")]), REVALIDATED);
        assert_eq!(policy(&[(ETAG, "\"v1\""), (CACHE_CONTROL, "no-store")]), NEVER_STORED);
        assert_eq!(policy(&[(CACHE_CONTROL, "no-cache, no-transform")]), STREAMED);
        assert_eq!(policy(&[(CACHE_CONTROL, "public, max-age=60")]), NEVER_STORED);
    }
}
