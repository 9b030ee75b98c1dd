//! The forwarded headers of one request.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::HeaderMap;
use http::uri::Authority;

use super::BasePath;

/// The client of one hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    /// A client at this address.
    Address(IpAddr),
    /// A client that the proxy does not name, or names in a form that cannot be parsed.
    Unknown,
}

/// The values that proxies forwarded. For scheme and host, those of the nearest proxy.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ForwardedHeaders {
    /// The client of each proxy, the nearest proxy last.
    pub(super) hops: Vec<Node>,
    /// The client uses TLS.
    pub(super) is_secure: bool,
    /// The host that the client requested.
    pub(super) host: Option<Authority>,
    /// The base path.
    pub(super) prefix: Option<BasePath>,
}

const X_HEADERS: [&str; 3] = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"];

impl ForwardedHeaders {
    /// Reads the headers. Most proxies write the `X-` headers and pass on a `Forwarded` header of
    /// the client, so `Forwarded` counts only if there are no `X-` headers.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let forwarded = if X_HEADERS.iter().any(|name| headers.contains_key(*name)) {
            Self::of_x_headers(headers)
        } else {
            Self::of_forwarded(headers).unwrap_or_default()
        };
        Self { prefix: prefix(headers), ..forwarded }
    }

    fn of_x_headers(headers: &HeaderMap) -> Self {
        let [hops, scheme, host] = X_HEADERS.map(|name| values(headers, name));
        Self {
            hops: hops.iter().map(|text| Node::of(text)).collect(),
            is_secure: scheme.last().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")),
            host: host.last().and_then(|host| authority(host)),
            prefix: None,
        }
    }

    /// Reads `Forwarded` (RFC 7239). Returns none if any part is malformed: an unclosed quote of a
    /// client would hide the elements that proxies append.
    fn of_forwarded(headers: &HeaderMap) -> Option<Self> {
        let mut forwarded = Self::default();
        for line in headers.get_all("forwarded") {
            for element in split(line.to_str().ok()?, ',')? {
                forwarded.add(element)?;
            }
        }
        Some(forwarded)
    }

    /// Adds the element of one proxy.
    fn add(&mut self, element: &str) -> Option<()> {
        let (mut hop, mut is_secure, mut host) = (Node::Unknown, false, None);
        for pair in split(element, ';')? {
            let (name, value) = pair.split_once('=')?;
            let value = unquoted(value.trim());
            match name.trim().to_ascii_lowercase().as_str() {
                "for" => hop = Node::of(&value),
                "proto" => is_secure = value.eq_ignore_ascii_case("https"),
                "host" => host = authority(&value),
                _ => {}
            }
        }
        self.hops.push(hop);
        (self.is_secure, self.host) = (is_secure, host);
        Some(())
    }
}

impl Node {
    /// Parses an address, with or without a port; an IPv6 address with or without brackets.
    fn of(text: &str) -> Self {
        let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok();
        let address = text
            .parse::<IpAddr>()
            .ok()
            .or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()))
            .or_else(|| bracketed().map(IpAddr::V6));
        address.map_or(Self::Unknown, |address| Self::Address(address.to_canonical()))
    }
}

/// The prefix, if there is exactly one. Several mean that a proxy passed on the header of a client.
fn prefix(headers: &HeaderMap) -> Option<BasePath> {
    let mut all = headers.get_all("x-forwarded-prefix").iter();
    let prefix = all.next().filter(|_| all.next().is_none())?;
    prefix.to_str().ok()?.parse().ok()
}

/// The values of a list header. A line that is not text counts as one empty value.
fn values<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    let lines = headers.get_all(name).iter().map(|line| line.to_str().unwrap_or_default());
    lines.flat_map(|line| line.split(',')).map(str::trim).collect()
}

/// A host with or without a port; no user information.
fn authority(text: &str) -> Option<Authority> {
    text.parse().ok().filter(|_| !text.contains('@'))
}

/// The parts between unquoted separators; none if a quote is not closed.
fn split(text: &str, separator: char) -> Option<Vec<&str>> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let parts = text.split(|c| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match c {
            '\\' if is_quoted && !was_escaped => is_escaped = true,
            '"' if !was_escaped => is_quoted = !is_quoted,
            _ => {}
        }
        c == separator && !is_quoted
    });
    let parts: Vec<&str> = parts.map(str::trim).filter(|part| !part.is_empty()).collect();
    (!is_quoted).then_some(parts)
}

/// A value without quotes and escapes.
fn unquoted(value: &str) -> String {
    let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    inner.unwrap_or(value).replace('\\', "")
}
