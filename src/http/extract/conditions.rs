//! Conditional requests by entity tags (RFC 9110, section 13).

use axum::response::{IntoResponse, Response};
use http::header::{AsHeaderName, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::http::error::ApiError;

/// A session's version as an entity tag. Everything that changes a session has an event, so the
/// newest one is its version.
fn tag(version: i64) -> String {
    format!("\"v{version}\"")
}

/// The `ETag` header of a version.
pub(in crate::http) fn etag(version: i64) -> [(HeaderName, String); 1] {
    [(ETAG, tag(version))]
}

/// The versions in `If-Match`, one of which must be the version of the session; `None` if every
/// version is accepted. Weak tags and malformed tags match no version.
pub(in crate::http) fn expected(headers: &HeaderMap) -> Option<Vec<i64>> {
    let list = joined(headers, IF_MATCH)?;
    if list.trim() == "*" {
        return None;
    }
    let strong = tags(&list).filter(|tag| !tag.is_weak);
    Some(strong.filter_map(|tag| version_of(tag.opaque)).collect())
}

/// Reports whether the resource must not exist yet: `If-None-Match: *`.
pub(in crate::http) fn expects_none(headers: &HeaderMap) -> bool {
    joined(headers, IF_NONE_MATCH).is_some_and(|list| list.trim() == "*")
}

/// Returns `304` if the client has this version already, by `If-None-Match`.
pub(in crate::http) fn not_modified(headers: &HeaderMap, last_seq: i64) -> Option<StatusCode> {
    let list = joined(headers, IF_NONE_MATCH)?;
    let has_it = || tags(&list).any(|tag| version_of(tag.opaque) == Some(last_seq));
    (list.trim() == "*" || has_it()).then_some(StatusCode::NOT_MODIFIED)
}

/// The response with the `ETag` of this version, or `304` if the client has the version already.
pub(in crate::http) fn unless_known<B: IntoResponse>(
    headers: &HeaderMap,
    last_seq: i64,
    body: impl FnOnce() -> B,
) -> Response {
    match not_modified(headers, last_seq) {
        Some(status) => (status, etag(last_seq)).into_response(),
        None => (etag(last_seq), body()).into_response(),
    }
}

/// A JSON document with an `ETag` of its content.
pub(in crate::http) fn tagged_json(document: &impl Serialize) -> Response {
    match serde_json::to_vec(document) {
        Ok(body) => tagged(body),
        Err(error) => ApiError::Internal(error.to_string()).into_response(),
    }
}

/// Encoded JSON with an `ETag` of its content.
pub(in crate::http) fn tagged(body: Vec<u8>) -> Response {
    let digest = Sha256::digest(&body);
    let tag = digest.iter().take(16).fold("\"".to_owned(), |tag, byte| format!("{tag}{byte:02x}"));
    let headers = [(ETAG, tag + "\""), (CONTENT_TYPE, "application/json".to_owned())];
    (headers, body).into_response()
}

/// Reports whether the client has this content already, by the `If-None-Match` of its request.
pub(in crate::http) fn is_known(request: &HeaderMap, etag: &HeaderValue) -> bool {
    let list = joined(request, IF_NONE_MATCH).unwrap_or_default();
    let etag = etag.to_str().unwrap_or_default();
    let opaque = tags(etag).next().map(|tag| tag.opaque);
    opaque.is_some_and(|opaque| list.trim() == "*" || tags(&list).any(|tag| tag.opaque == opaque))
}

/// Joins the list of several header lines.
fn joined(headers: &HeaderMap, name: impl AsHeaderName) -> Option<String> {
    let fields = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default());
    let fields: Vec<&str> = fields.collect();
    (!fields.is_empty()).then(|| fields.join(","))
}

fn version_of(opaque: &str) -> Option<i64> {
    let version = opaque.strip_prefix('v')?.parse().ok()?;
    // A number has one spelling.
    (opaque == format!("v{version}")).then_some(version)
}

#[derive(Debug, PartialEq, Eq)]
struct Tag<'a> {
    is_weak: bool,
    opaque: &'a str,
}

/// The tags of a list, up to the first malformed one.
fn tags(mut list: &str) -> impl Iterator<Item = Tag<'_>> {
    std::iter::from_fn(move || {
        list = list.trim_start_matches([' ', '\t', ',']);
        let is_weak = list.starts_with("W/");
        let quoted = list.strip_prefix("W/").unwrap_or(list).strip_prefix('"')?;
        let (opaque, rest) = quoted.split_once('"')?;
        list = rest;
        Some(Tag { is_weak, opaque })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_change_names_the_versions_that_it_is_for() {
        let expected = |values: &[&str]| expected(&headers("if-match", values));
        assert_eq!(expected(&[]), None);
        assert_eq!(expected(&["*"]), None);
        assert_eq!(expected(&["\"v7\""]), Some(vec![7]));
        assert_eq!(expected(&["\"v7\" , \"a,b\",\"v8\"", "\"v9\""]), Some(vec![7, 8, 9]));
        for never in ["W/\"v7\"", "v7", "\"v07\"", "\"v+7\"", "\"7\"", "\"v7", "", "w/\"v7\""] {
            assert_eq!(expected(&[never]), Some(Vec::new()), "{never}");
        }
    }

    #[test]
    fn what_the_client_has_is_not_sent_again() {
        let is_known = |values: &[&str]| {
            not_modified(&headers("if-none-match", values), 7) == Some(StatusCode::NOT_MODIFIED)
        };
        for known in ["*", "\"v7\"", "W/\"v7\"", "\"v6\", \"v7\""] {
            assert!(is_known(&[known]), "{known}");
        }
        assert!(is_known(&["\"v6\"", "\"v7\""]));
        for unknown in ["\"v6\"", "v7", "\"V7\"", ""] {
            assert!(!is_known(&[unknown]), "{unknown}");
        }
        assert!(!is_known(&[]));
    }
}
