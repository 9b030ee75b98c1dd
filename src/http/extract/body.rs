//! Bodies of requests, read within limits of size and time.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest as _, Request};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::http::error::ApiError;
use crate::service::Error;

/// The maximum size of a body in bytes, except for messages, tool results and imports.
pub(in crate::http) const MAX_BODY: usize = 4 * 1024 * 1024;

/// The limits under which bodies are read.
#[derive(Debug, Clone)]
pub(in crate::http) struct BodyLimits {
    /// The maximum time from the head of a request to the last byte of its body.
    pub(in crate::http) timeout: Duration,
    /// Fires when the service begins to stop.
    pub(in crate::http) draining: CancellationToken,
}

impl BodyLimits {
    /// Returns one second after the service has begun to stop, so that a body that has almost
    /// arrived is still read.
    pub(in crate::http) async fn stops_soon(&self) {
        self.draining.cancelled().await;
        sleep(Duration::from_secs(1)).await;
    }
}

/// Reads a whole body of at most [`MAX_BODY`] bytes.
pub(in crate::http) async fn read_body(
    request: Request,
    limits: &BodyLimits,
) -> Result<Bytes, ApiError> {
    check_coding(request.headers())?;
    if content_length(request.headers()).is_some_and(|length| length > MAX_BODY) {
        return Err(ApiError::BodyTooLarge(MAX_BODY));
    }
    let read = Bytes::from_request(request, &());
    tokio::select! {
        read = timeout(limits.timeout, read) => {
            read.map_err(|_| ApiError::RequestTimeout(limits.timeout))?.map_err(body_error)
        }
        () = limits.stops_soon() => Err(Error::Draining.into()),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the signature that map_err takes")]
fn body_error(rejection: BytesRejection) -> ApiError {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return ApiError::BodyTooLarge(MAX_BODY);
    }
    ApiError::BodyIncomplete
}

/// The media type of a body without its parameters, in lower case.
pub(in crate::http) fn media_type(headers: &HeaderMap) -> String {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Refuses a body that has no JSON media type, or that is not in UTF-8.
pub(in crate::http) fn check_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let kind = media_type(headers);
    let is_json =
        kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"));
    if is_json { check_charset(headers) } else { Err(ApiError::UnsupportedMediaType) }
}

/// Refuses a `charset` other than UTF-8 and its subset ASCII.
pub(in crate::http) fn check_charset(headers: &HeaderMap) -> Result<(), ApiError> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut parameters = kind.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let charset = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    let Some((_, charset)) = charset else { return Ok(()) };
    let charset = charset.trim().trim_matches('"');
    let is_allowed =
        ["utf-8", "utf8", "us-ascii"].iter().any(|it| it.eq_ignore_ascii_case(charset));
    if is_allowed { Ok(()) } else { Err(ApiError::UnsupportedCharset(charset.to_owned())) }
}

/// Refuses a compressed body.
pub(in crate::http) fn check_coding(headers: &HeaderMap) -> Result<(), ApiError> {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    let is_plain =
        |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity");
    if codings.all(is_plain) { Ok(()) } else { Err(ApiError::CompressedBody) }
}

/// The value of `Content-Length`.
pub(in crate::http) fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
