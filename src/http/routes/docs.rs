//! The page that explains the API.

use axum::response::{Html, IntoResponse};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};

use crate::http::openapi::page::page;

/// The API for people: this document as a page, which needs neither a script nor anything from
/// elsewhere.
#[utoipa::path(
    get, path = "/docs", operation_id = "get_docs", tag = "operations",
    responses(
        (status = 200, description = "The page.", body = String, content_type = "text/html",
         headers(("content-security-policy" = String,
                  description = "What a browser is to keep the page from."))),
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
