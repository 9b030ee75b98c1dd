//! The hosts that the operator allows in URLs from callers and the model.

use std::net::IpAddr;
use std::str::FromStr;

use reqwest::Url;

use super::is_public;

/// The entry that allows every public host.
const PUBLIC: &str = "public";

/// The allowed hosts. The default allows none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedHosts {
    allows_public: bool,
    listed: Vec<AllowedHost>,
}

/// A host name or address, and a port if the entry is limited to one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AllowedHost {
    host: String,
    port: Option<u16>,
}

/// An entry that is not a valid host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither `public` nor a host, with or without a port")]
pub struct BadHost(String);

/// The conditions under which a host may be requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The operator listed the host: any address, with or without TLS.
    Listed,
    /// Public addresses only, with TLS.
    Public,
}

/// The reason that a URL is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RefusedUrl {
    /// The scheme is not supported.
    #[error("is not an http or https URL")]
    Scheme,
    /// The URL has credentials, which would appear in logs and lists.
    #[error("has a user name or a password")]
    Credentials,
    /// The URL has a fragment, which is never sent.
    #[error("has a fragment")]
    Fragment,
    /// The connection would not be encrypted.
    #[error("is not an https URL")]
    Plain,
    /// The operator does not allow the host.
    #[error("is at a host that the operator does not allow")]
    Host,
    /// The address is not public.
    #[error("is at an address that is not public")]
    Address,
}

impl AllowedHosts {
    /// Parses a list of allowed hosts.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, BadHost> {
        let mut hosts = Self::default();
        for text in texts {
            if text == PUBLIC {
                hosts.allows_public = true;
            } else {
                hosts.listed.push(text.parse()?);
            }
        }
        Ok(hosts)
    }

    /// Returns `true` if the operator listed the host of the URL, and also allows all public hosts.
    pub fn is_listed_beside_public(&self, url: &Url) -> bool {
        let mut url = url.clone();
        url.set_fragment(None);
        self.allows_public && self.reach(&url) == Ok(Reach::Listed)
    }

    /// Returns `true` if the operator listed hosts, and also allows all public hosts.
    pub const fn are_listed_beside_public(&self) -> bool {
        self.allows_public && !self.listed.is_empty()
    }

    /// Returns the conditions under which a URL may be requested. The addresses of a host name are
    /// checked when a connection is made.
    pub fn reach(&self, url: &Url) -> Result<Reach, RefusedUrl> {
        if !["http", "https"].contains(&url.scheme()) {
            return Err(RefusedUrl::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(RefusedUrl::Credentials);
        }
        if url.fragment().is_some() {
            return Err(RefusedUrl::Fragment);
        }
        let host = url.host_str().ok_or(RefusedUrl::Scheme)?;
        if self.listed.iter().any(|listed| listed.is(host, url.port_or_known_default())) {
            return Ok(Reach::Listed);
        }
        if !self.allows_public {
            return Err(RefusedUrl::Host);
        }
        if url.scheme() != "https" {
            return Err(RefusedUrl::Plain);
        }
        // `Url` normalizes every notation of an address.
        let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
        if address.is_some_and(|address| !is_public(address)) {
            return Err(RefusedUrl::Address);
        }
        Ok(Reach::Public)
    }
}

impl AllowedHost {
    fn is(&self, host: &str, port: Option<u16>) -> bool {
        self.host == host && self.port.is_none_or(|own| Some(own) == port)
    }
}

impl FromStr for AllowedHost {
    type Err = BadHost;

    fn from_str(text: &str) -> Result<Self, BadHost> {
        let bad = || BadHost(text.to_owned());
        // Parsing it as a part of a URL normalizes the host. `Url::port` omits the default port.
        let url: Url = format!("http://{text}").parse().map_err(|_| bad())?;
        let host = url.host_str().ok_or_else(bad)?.to_owned();
        let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        let is_plain = url.username().is_empty() && url.password().is_none();
        if text.is_empty() || text.ends_with('/') || !is_bare || !is_plain {
            return Err(bad());
        }
        let port = url.port().or_else(|| text.ends_with(":80").then_some(80));
        Ok(Self { host, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(hosts: &[&str], url: &str) -> Result<Reach, RefusedUrl> {
        AllowedHosts::parse(hosts.iter().copied()).unwrap().reach(&url.parse().unwrap())
    }

    #[test]
    fn no_host_is_allowed_by_default() {
        assert_eq!(reach(&[], "https://example.com/hook"), Err(RefusedUrl::Host));
    }

    #[test]
    fn a_listed_host_is_allowed_at_any_address() {
        let hosts = ["hooks.internal", "127.0.0.1:9000", "[::1]:80", "Example.COM:443"];
        for url in [
            "http://hooks.internal/a?b=c",
            "https://hooks.internal:8443/",
            "http://127.0.0.1:9000",
            "http://2130706433:9000/",
            "http://[::1]/",
            "https://example.com/",
        ] {
            assert_eq!(reach(&hosts, url), Ok(Reach::Listed), "{url}");
        }
        for url in [
            "http://127.0.0.1:9001/",
            "http://hooks.internal.example.com/",
            "http://example.com/",
            "https://[::1]/",
        ] {
            assert_eq!(reach(&hosts, url), Err(RefusedUrl::Host), "{url}");
        }
    }

    #[test]
    fn the_entry_public_allows_public_hosts_with_tls_only() {
        for (url, expected) in [
            ("https://example.com/hook", Ok(Reach::Public)),
            ("https://1.1.1.1/", Ok(Reach::Public)),
            ("http://example.com/hook", Err(RefusedUrl::Plain)),
            ("https://127.0.0.1/", Err(RefusedUrl::Address)),
            ("https://0x7f.1/", Err(RefusedUrl::Address)),
            ("https://2852039166/", Err(RefusedUrl::Address)),
            ("https://[::ffff:10.0.0.1]/", Err(RefusedUrl::Address)),
        ] {
            assert_eq!(reach(&["public"], url), expected, "{url}");
        }
    }

    #[test]
    fn credentials_and_fragments_are_refused_even_for_a_listed_host() {
        for (url, expected) in [
            ("ftp://a.internal/", RefusedUrl::Scheme),
            ("http://me@a.internal/", RefusedUrl::Credentials),
            ("http://me:secret@a.internal/", RefusedUrl::Credentials),
            ("http://a.internal/#part", RefusedUrl::Fragment),
        ] {
            assert_eq!(reach(&["a.internal"], url), Err(expected), "{url}");
        }
    }

    #[test]
    fn entries_that_are_not_hosts_are_rejected() {
        for text in ["", "http://a", "a/b", "a/", "me@a", "a:b", "a?b", "a#b", "a b", "a:70000"] {
            let expected = BadHost(text.to_owned());
            assert_eq!(AllowedHosts::parse([text]), Err(expected), "{text}");
        }
    }
}
