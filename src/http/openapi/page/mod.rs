//! The API reference as a page: Redoc, served from this binary, renders the OpenAPI document.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// The version of Redoc, which is part of the path of its script.
macro_rules! version {
    () => {
        "2.5.4"
    };
}

/// The path of the script.
pub(in crate::http) const SCRIPT_PATH: &str = concat!("/docs/redoc-", version!(), ".js");
/// The script, compressed with gzip.
pub(in crate::http) const SCRIPT: &[u8] = include_bytes!("redoc.standalone.js.gz");

/// The page, without the version of the script.
const TEMPLATE: &str = include_str!("index.html");
/// The style of the page itself.
const STYLE: &str = "body{margin:0}";
/// The styles that Redoc inserts: the empty text of a sheet that it fills by script, and the style
/// of its scroll bars.
const REDOC_STYLES: &str = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=' \
    'sha256-QMIg+bpjm3JdElJ388KYke01izlUW0UoNOeKjpMxdgc='";

/// The page and its content security policy.
#[derive(Debug)]
pub(in crate::http) struct Page {
    pub(in crate::http) html: String,
    /// Allows scripts, data and images of this service only. The script of the search runs in a
    /// worker that Redoc creates from a `blob:` URL.
    pub(in crate::http) policy: String,
}

/// The page.
pub(in crate::http) fn page() -> &'static Page {
    static PAGE: LazyLock<Page> = LazyLock::new(|| {
        let style = STANDARD.encode(Sha256::digest(STYLE));
        let policy = format!(
            "default-src 'none'; script-src 'self'; style-src 'sha256-{style}' {REDOC_STYLES}; \
             connect-src 'self'; img-src 'self' data:; worker-src blob:; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'"
        );
        Page { html: TEMPLATE.replace("{VERSION}", version!()), policy }
    });
    &PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_allows_the_style_of_the_page() {
        assert!(TEMPLATE.contains(&format!("<style>{STYLE}</style>")));
    }

    #[test]
    fn the_script_is_compressed() {
        assert_eq!(SCRIPT[..2], [0x1f, 0x8b]);
    }
}
