//! Domain filter for search results.

use std::fmt::Write as _;

use reqwest::Url;

/// The maximum number of domains in one call.
const MAX_DOMAINS: usize = 10;

/// Allowed and blocked domains, each including its subdomains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::tools::builtin) struct Domains {
    allowed: Vec<String>,
    blocked: Vec<String>,
}

/// The reason why a list of domains is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::tools::builtin) enum BadDomains {
    #[error("{0:?} is not a domain such as docs.rs")]
    Domain(String),
    #[error("there are more than {MAX_DOMAINS} domains")]
    Many,
}

impl Domains {
    pub(in crate::tools::builtin) fn new(
        allowed: &[String],
        blocked: &[String],
    ) -> Result<Self, BadDomains> {
        if allowed.len() + blocked.len() > MAX_DOMAINS {
            return Err(BadDomains::Many);
        }
        let read =
            |names: &[String]| names.iter().map(|name| domain(name)).collect::<Result<_, _>>();
        Ok(Self { allowed: read(allowed)?, blocked: read(blocked)? })
    }

    /// Returns whether the filter permits a page.
    pub(super) fn allow(&self, url: &str) -> bool {
        let Ok(url) = url.parse::<Url>() else { return false };
        let Some(host) = url.host_str().filter(|_| ["http", "https"].contains(&url.scheme()))
        else {
            return false;
        };
        let is_of = |domain: &String| {
            let before = host.strip_suffix(domain.as_str());
            before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        (self.allowed.is_empty() || self.allowed.iter().any(is_of))
            && !self.blocked.iter().any(is_of)
    }

    /// Adds `site:` operators to a query. Most services apply them, but results are filtered again.
    pub(super) fn narrowed(&self, query: &str) -> String {
        let mut query = query.to_owned();
        for (index, domain) in self.allowed.iter().enumerate() {
            let between = if index == 0 { "" } else { " OR" };
            let _ = write!(query, "{between} site:{domain}");
        }
        for domain in &self.blocked {
            let _ = write!(query, " -site:{domain}");
        }
        query
    }
}

/// Normalizes a domain as hosts of URLs are normalized.
fn domain(name: &str) -> Result<String, BadDomains> {
    let bad = || BadDomains::Domain(name.to_owned());
    let url: Url = format!("https://{name}/").parse().map_err(|_| bad())?;
    let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let is_plain = url.username().is_empty() && url.password().is_none() && url.port().is_none();
    let host = url.domain().filter(|_| is_bare && is_plain && !name.contains('*'));
    let host = host.ok_or_else(bad)?;
    Ok(host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domains(allowed: &[&str], blocked: &[&str]) -> Domains {
        let owned =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Domains::new(&owned(allowed), &owned(blocked)).unwrap()
    }

    #[test]
    fn a_domain_includes_its_subdomains() {
        let some = domains(&["Docs.rs", "example.com"], &["old.example.com"]);
        for (url, expected) in [
            ("https://docs.rs/axum", true),
            ("http://www.example.com/", true),
            ("https://old.example.com/", false),
            ("https://very.old.example.com/", false),
            ("https://notdocs.rs/", false),
            ("https://docs.rs.evil.com/", false),
            ("https://evil.com/docs.rs", false),
            ("ftp://docs.rs/", false),
            ("docs.rs", false),
        ] {
            assert_eq!(some.allow(url), expected, "{url}");
        }
        assert!(Domains::default().allow("https://docs.rs/axum"));
        assert!(!Domains::default().allow("javascript:alert(1)"));
    }

    #[test]
    fn domains_become_site_operators_in_the_query() {
        let both = domains(&["docs.rs", "b.org"], &["old.b.org"]);
        assert_eq!(both.narrowed("axum"), "axum site:docs.rs OR site:b.org -site:old.b.org");
        assert_eq!(Domains::default().narrowed("axum"), "axum");
    }

    #[test]
    fn invalid_domains_are_refused() {
        for name in ["", "a b", "a/b", "a:8080", "me@a", "127.0.0.1", "[::1]", "a?b", "*.a"] {
            let named = [name.to_owned()];
            assert_eq!(
                Domains::new(&named, &[]),
                Err(BadDomains::Domain(name.to_owned())),
                "{name}"
            );
        }
        let many = vec!["a.org".to_owned(); MAX_DOMAINS];
        assert_eq!(Domains::new(&many, &many), Err(BadDomains::Many));
    }
}
