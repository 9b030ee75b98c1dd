//! The page for people at `/app/`: a client of the API in the browser, served from this binary.

mod files;

use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, LOCATION,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};

use crate::http::error::{ApiError, no_route};
use files::{PageFile, page_file};

/// The patterns of the routes. Their responses are the same for all callers.
pub(in crate::http) const PATTERNS: [&str; 3] = ["/app", "/app/", "/app/{*file}"];
const DOCUMENT: &str = "index.html";
/// The folder of the files whose names have a hash of their content.
const HASHED: &str = "assets/";

/// Allows scripts, styles and data of this service only. The page shows attached images from memory.
/// Text becomes HTML only through the policy of the sanitizer.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types dompurify";
const PERMISSIONS: HeaderName = HeaderName::from_static("permissions-policy");
const OPENER: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// The routes of the page.
pub(in crate::http) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let [folder, document, file] = PATTERNS;
    Router::new()
        .route(folder, get(get_folder))
        .route(document, get(get_document))
        .route(file, get(get_file))
}

/// Adds the slash with which the relative paths of the page are valid. The path is relative, so that it
/// is right under every base path.
async fn get_folder(uri: Uri) -> Response {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    (StatusCode::PERMANENT_REDIRECT, [(LOCATION, format!("app/{query}"))]).into_response()
}

async fn get_document(uri: Uri, headers: HeaderMap) -> Result<Response, ApiError> {
    respond(DOCUMENT, uri, &headers).await
}

async fn get_file(
    Path(name): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    respond(&name, uri, &headers).await
}

async fn respond(name: &str, uri: Uri, headers: &HeaderMap) -> Result<Response, ApiError> {
    match file_response(name, headers) {
        Some(response) => Ok(response),
        None => Err(no_route(uri).await),
    }
}

/// The response with a file, compressed if the client accepts that; none if there is no such file.
fn file_response(name: &str, headers: &HeaderMap) -> Option<Response> {
    let PageFile { content, etag, media_type, is_compressed } =
        page_file(name, files::accepts_gzip(headers))?;
    let caching =
        if name.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let mut response = (
        [
            (CONTENT_TYPE, media_type),
            (CACHE_CONTROL, caching),
            (VARY, "accept-encoding"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
            (CONTENT_SECURITY_POLICY, POLICY),
            (PERMISSIONS, "camera=(), geolocation=(), microphone=()"),
            (OPENER, "same-origin"),
        ],
        [(ETAG, etag)],
        content,
    )
        .into_response();
    if is_compressed {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Some(response)
}
