//! Which hosts the operator lets others name.

use std::net::IpAddr;
use std::str::FromStr;

use reqwest::Url;

use super::is_public;

/// The word for every host of the public network.
const PUBLIC: &str = "public";

/// What the operator allows: nothing, unless they say so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedHosts {
    allows_public: bool,
    listed: Vec<Listed>,
}

/// A host by its name or address, and its port if only one is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listed {
    host: String,
    port: Option<u16>,
}

/// A text that names no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither `public` nor a host, with or without a port")]
pub struct BadHost(String);

/// How a host may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// As the operator has listed it, wherever it is, with or without TLS.
    Listed,
    /// At public addresses, with TLS.
    Public,
}

/// Why a URL may not be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Only these two are spoken.
    #[error("is not an http or https URL")]
    Scheme,
    /// They would stand in logs and lists.
    #[error("has a user name or a password")]
    Credentials,
    /// Nobody would ever see it.
    #[error("has a fragment")]
    Fragment,
    /// It is open to everybody on the way.
    #[error("is not an https URL")]
    Plain,
    /// The operator has not listed it.
    #[error("is at a host that the operator does not allow")]
    Host,
    /// It belongs to a network that is not everybody's.
    #[error("is at an address that is not public")]
    Address,
}

impl AllowedHosts {
    /// What a list of hosts allows.
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

    /// How a URL may be asked, if it may. What its name resolves to is looked at when it is asked.
    pub fn reach(&self, url: &Url) -> Result<Reach, Refused> {
        if !["http", "https"].contains(&url.scheme()) {
            return Err(Refused::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refused::Credentials);
        }
        if url.fragment().is_some() {
            return Err(Refused::Fragment);
        }
        let host = url.host_str().ok_or(Refused::Scheme)?;
        if self.listed.iter().any(|listed| listed.is(host, url.port_or_known_default())) {
            return Ok(Reach::Listed);
        }
        if !self.allows_public {
            return Err(Refused::Host);
        }
        if url.scheme() != "https" {
            return Err(Refused::Plain);
        }
        // A URL has one spelling for each address, whatever it was written as.
        let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
        if address.is_some_and(|address| !is_public(address)) {
            return Err(Refused::Address);
        }
        Ok(Reach::Public)
    }
}

impl Listed {
    fn is(&self, host: &str, port: Option<u16>) -> bool {
        self.host == host && self.port.is_none_or(|own| Some(own) == port)
    }
}

impl FromStr for Listed {
    type Err = BadHost;

    fn from_str(text: &str) -> Result<Self, BadHost> {
        let bad = || BadHost(text.to_owned());
        // As a part of a URL it gets the spelling that hosts of URLs have. The port of the scheme
        // is not told there.
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

    fn reach(hosts: &[&str], url: &str) -> Result<Reach, Refused> {
        AllowedHosts::parse(hosts.iter().copied()).unwrap().reach(&url.parse().unwrap())
    }

    #[test]
    fn nothing_is_allowed_unless_somebody_says_so() {
        assert_eq!(reach(&[], "https://example.com/hook"), Err(Refused::Host));
    }

    #[test]
    fn a_listed_host_may_be_asked_wherever_it_is() {
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
            assert_eq!(reach(&hosts, url), Err(Refused::Host), "{url}");
        }
    }

    #[test]
    fn all_of_the_public_network_is_allowed_by_one_word_and_with_tls_only() {
        for (url, expected) in [
            ("https://example.com/hook", Ok(Reach::Public)),
            ("https://1.1.1.1/", Ok(Reach::Public)),
            ("http://example.com/hook", Err(Refused::Plain)),
            ("https://127.0.0.1/", Err(Refused::Address)),
            ("https://0x7f.1/", Err(Refused::Address)),
            ("https://2852039166/", Err(Refused::Address)),
            ("https://[::ffff:10.0.0.1]/", Err(Refused::Address)),
        ] {
            assert_eq!(reach(&["public"], url), expected, "{url}");
        }
    }

    #[test]
    fn what_no_webhook_should_have_is_refused_even_at_a_listed_host() {
        for (url, expected) in [
            ("ftp://a.internal/", Refused::Scheme),
            ("http://me@a.internal/", Refused::Credentials),
            ("http://me:secret@a.internal/", Refused::Credentials),
            ("http://a.internal/#part", Refused::Fragment),
        ] {
            assert_eq!(reach(&["a.internal"], url), Err(expected), "{url}");
        }
    }

    #[test]
    fn a_list_of_anything_but_hosts_is_refused() {
        for text in ["", "http://a", "a/b", "a/", "me@a", "a:b", "a?b", "a#b", "a b", "a:70000"] {
            let expected = BadHost(text.to_owned());
            assert_eq!(AllowedHosts::parse([text]), Err(expected), "{text}");
        }
    }
}
