//! Patterns of addresses: a domain, and all that are beneath it.

use reqwest::Url;

use super::visible::has_hidden;
use super::wildcard::MAX_TEXT;

/// A domain in a rule about an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DomainPattern(String);

impl DomainPattern {
    pub(super) fn new(domain: &str) -> Result<Self, &'static str> {
        let url = Url::parse(&format!("https://{domain}/")).map_err(|_| "names no domain")?;
        let is_whole = url.host_str().is_some_and(|host| host.eq_ignore_ascii_case(domain));
        if !is_whole || url.domain().is_none() || domain.contains('*') {
            return Err("names no domain");
        }
        Ok(Self(domain.to_ascii_lowercase()))
    }

    /// Whether an address is surely one of this domain, however it is read.
    pub(super) fn surely(&self, text: &str) -> bool {
        if text.len() > MAX_TEXT || has_hidden(text) {
            return false;
        }
        // The one sign that programs leave out of an address that has nothing behind its host.
        let is_plain = is_plain_url(text) || is_plain_url(&format!("{text}/"));
        let url = Url::parse(text).ok().filter(|_| is_plain);
        url.is_some_and(|url| is_of_web(&url) && self.has(&url))
    }

    /// Whether an address may be one of this domain.
    pub(super) fn maybe(&self, text: &str) -> bool {
        match Url::parse(text) {
            Ok(url) if is_of_web(&url) => self.has(&url),
            // Somebody may read it all the same.
            Ok(_) | Err(_) => text.to_lowercase().contains(&self.0),
        }
    }

    fn has(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        let before = host.trim_end_matches('.').strip_suffix(&self.0);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    }
}

fn is_of_web(url: &Url) -> bool {
    ["http", "https"].contains(&url.scheme())
}

/// Whether an address is written as programs write it, so that its host is where it seems to be,
/// and no user's name stands before it.
pub(super) fn is_plain_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        url.as_str() == text && url.username().is_empty() && url.password().is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_allowed_with_all_beneath_it_and_nothing_that_looks_like_it() {
        let pattern = DomainPattern::new("Docs.rs").unwrap();
        for (text, expected) in [
            ("https://docs.rs", true),
            ("https://docs.rs/axum?a#b", true),
            ("http://old.docs.rs:8080/", true),
            ("https://notdocs.rs/", false),
            ("https://docs.rs.evil.com/", false),
            ("https://evil.com/docs.rs", false),
            ("https://evil.com/?docs.rs", false),
            ("https://evil.com#docs.rs", false),
            ("https://docs.rs@evil.com/", false),
            ("https://me@docs.rs/", false),
            ("https://evil.com\\@docs.rs/", false),
            ("https:docs.rs/", false),
            ("https://docs.rs/\u{200b}", false),
            (" https://docs.rs/", false),
            ("ftp://docs.rs/", false),
            ("docs.rs", false),
        ] {
            assert_eq!(pattern.surely(text), expected, "{text}");
        }
    }

    #[test]
    fn a_domain_is_denied_however_its_address_is_written() {
        let pattern = DomainPattern::new("evil.com").unwrap();
        for (text, expected) in [
            ("https://evil.com/", true),
            ("HTTPS://EVIL.COM.", true),
            ("https://a.evil.com:1/", true),
            ("https:\\\\evil.com", true),
            ("https://docs.rs@evil.com/", true),
            ("evil.com/path", true),
            ("ftp://Evil.com/", true),
            ("https://docs.rs/evil.com", false),
            ("https://notevil.com/", false),
        ] {
            assert_eq!(pattern.maybe(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_domain_is_refused() {
        for text in ["", "*.docs.rs", "docs.rs/a", "docs.rs:443", "me@docs.rs", "127.0.0.1", "a b"]
        {
            assert_eq!(DomainPattern::new(text), Err("names no domain"), "{text}");
        }
    }
}
