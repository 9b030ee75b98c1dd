//! Responses that are streams.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures::stream;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use crate::bus::Subscription;
use crate::http::server::stream_permits::StreamPermit;
use crate::http::state::Api;
use crate::http::stream::encoder::StreamEncoder;
use crate::http::stream::format::StreamFormat;
use crate::http::stream::request::StreamRequest;
use crate::http::stream::sse::Reader;

/// Responds with a stream in a format of the service's own protocol. A subscription that was made before the run was accepted misses none of
/// its events.
pub(in crate::http) fn respond(
    api: &Arc<Api>,
    request: StreamRequest,
    subscription: Subscription,
    permit: StreamPermit,
    format: StreamFormat,
) -> Response {
    streamed(encoded(api, request, subscription, permit, format), format)
}

/// The body of a stream that an encoder writes.
pub(in crate::http) fn encoded(
    api: &Arc<Api>,
    request: StreamRequest,
    subscription: Subscription,
    permit: StreamPermit,
    encoder: impl StreamEncoder,
) -> Body {
    let reader = Reader::new(Arc::clone(api), request, subscription, permit, encoder);
    let body = stream::unfold(reader, async |mut reader| {
        let item = reader.next().await?;
        Some((item, reader))
    });
    Body::from_stream(body)
}

/// A response with the headers that keep proxies from caching and buffering a stream.
pub(in crate::http) fn streamed(body: Body, format: StreamFormat) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
