//! URL patterns that match a domain and its subdomains.

use reqwest::Url;

use super::visible::has_hidden;
use super::wildcard::MAX_TEXT;

/// The domain in a rule about a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DomainPattern(String);

impl DomainPattern {
    pub(super) fn new(domain: &str) -> Result<Self, &'static str> {
        let url = Url::parse(&format!("https://{domain}/")).map_err(|_| "has no domain")?;
        let is_whole = url.host_str().is_some_and(|host| host.eq_ignore_ascii_case(domain));
        if !is_whole || url.domain().is_none() || domain.contains('*') {
            return Err("has no domain");
        }
        Ok(Self(domain.to_ascii_lowercase()))
    }

    /// Returns `true` if every URL parser finds this domain, or a subdomain, in the URL.
    /// `allow` rules use this test.
    pub(super) fn certainly_matches(&self, text: &str) -> bool {
        if text.len() > MAX_TEXT || has_hidden(text) {
            return false;
        }
        // Programs often omit the final `/` of a URL without a path.
        let is_plain = is_plain_url(text) || is_plain_url(&format!("{text}/"));
        let url = Url::parse(text).ok().filter(|_| is_plain);
        url.is_some_and(|url| is_of_web(&url) && self.has(&url))
    }

    /// Returns `true` if the URL could be in this domain. `ask` and `deny` rules use this test.
    pub(super) fn possibly_matches(&self, text: &str) -> bool {
        match Url::parse(text) {
            Ok(url) if is_of_web(&url) => self.has(&url),
            // A more lenient parser may still accept the text as a URL.
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

/// Returns `true` if the URL is in the normalized form, without user name and password. Its host
/// is then visible to people and the same for every parser.
pub(super) fn is_plain_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        url.as_str() == text && url.username().is_empty() && url.password().is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_matches_its_subdomains_and_no_lookalikes() {
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
            assert_eq!(pattern.certainly_matches(text), expected, "{text}");
        }
    }

    #[test]
    fn a_denied_domain_matches_every_notation_of_its_url() {
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
            assert_eq!(pattern.possibly_matches(text), expected, "{text}");
        }
    }

    #[test]
    fn invalid_domains_are_rejected() {
        for text in ["", "*.docs.rs", "docs.rs/a", "docs.rs:443", "me@docs.rs", "127.0.0.1", "a b"]
        {
            assert_eq!(DomainPattern::new(text), Err("has no domain"), "{text}");
        }
    }
}
