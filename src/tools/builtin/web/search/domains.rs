//! Of which domains results are wanted, and of which not.

use std::fmt::Write as _;

use reqwest::Url;

/// Domains of one call.
const MAX_DOMAINS: usize = 10;

/// Domains, each with all that are beneath it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::tools::builtin) struct Domains {
    allowed: Vec<String>,
    blocked: Vec<String>,
}

/// What is no list of domains.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::tools::builtin) enum BadDomains {
    #[error("{0:?} is no domain, such as docs.rs")]
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

    /// Whether a page may be among the results.
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

    /// A query with the words that keep most services to the domains. What they give all the same
    /// is looked at.
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

/// A domain in the spelling that hosts of URLs have.
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
    fn a_domain_is_meant_with_all_that_are_beneath_it() {
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
    fn services_are_told_of_domains_in_their_words() {
        let both = domains(&["docs.rs", "b.org"], &["old.b.org"]);
        assert_eq!(both.narrowed("axum"), "axum site:docs.rs OR site:b.org -site:old.b.org");
        assert_eq!(Domains::default().narrowed("axum"), "axum");
    }

    #[test]
    fn what_is_no_domain_is_refused() {
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
