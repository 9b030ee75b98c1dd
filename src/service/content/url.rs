//! URLs of images and documents.

use reqwest::Url;

/// Returns true if a text is an `https` URL without white space, control characters and
/// credentials.
pub(super) fn is_https(url: &str) -> bool {
    let is_clean = !url.chars().any(|c| c.is_whitespace() || c.is_control());
    let parsed = Url::parse(url).ok().filter(|parsed| parsed.scheme() == "https");
    is_clean
        && parsed.is_some_and(|parsed| {
            parsed.has_host() && parsed.username().is_empty() && parsed.password().is_none()
        })
}
