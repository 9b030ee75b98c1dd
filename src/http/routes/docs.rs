//! The API reference as a page.

use axum::response::{Html, IntoResponse};
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};

use crate::http::openapi::page::{SCRIPT, page};

/// Returns the API reference as a web page.
///
/// The page renders this document with Redoc. It loads nothing from other hosts.
#[utoipa::path(
    get, path = "/docs", operation_id = "get_docs", tag = "operations",
    responses(
        (status = 200, description = "The page.", body = String, content_type = "text/html",
         headers(("content-security-policy" = String,
                  description = "Allows scripts and data of this service only."))),
    )
)]
pub(in crate::http) async fn get_docs() -> impl IntoResponse {
    let page = page();
    let headers = [
        (CONTENT_SECURITY_POLICY, page.policy.as_str()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, Html(page.html.as_str()))
}

/// Returns the script of the page. Every browser accepts gzip, so there is no other form.
pub(in crate::http) async fn get_docs_script() -> impl IntoResponse {
    let headers = [
        (CONTENT_TYPE, "text/javascript; charset=utf-8"),
        (CONTENT_ENCODING, "gzip"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // The path has the version.
        (CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, SCRIPT)
}
