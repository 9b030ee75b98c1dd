//! Forwarded headers: the client address, and the scheme, host and base path that clients use.
//!
//! Any client can send these headers. They count only if the peer is a trusted proxy, and in a chain
//! of proxies only as far as each proxy is trusted.

mod base;
mod headers;
mod trusted;

use std::fmt;
use std::net::IpAddr;

use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, Request, Uri};

pub(in crate::http) use base::{BASE, carry, link, public};
pub use base::{BadBasePath, BasePath};
use headers::{ForwardedHeaders, Node};
pub use trusted::{BadProxy, TrustedProxies};

/// The configuration of forwarded headers.
#[derive(Debug, Clone, Default)]
pub struct Forwarding {
    /// The proxies whose headers count.
    pub trusted: TrustedProxies,
    /// The base path under which clients see the service; none for the one that trusted proxies
    /// forward.
    pub base: Option<BasePath>,
}

/// The origin of a request: client address, scheme and host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http) struct Origin {
    /// The address of the nearest hop that is not a trusted proxy.
    pub(in crate::http) client: IpAddr,
    /// The client uses TLS towards a trusted proxy.
    is_secure: bool,
    /// The host that the client requested.
    host: Option<Authority>,
}

impl Origin {
    /// The host that the client requested, with its port.
    pub(in crate::http) fn host(&self) -> Option<&str> {
        self.host.as_ref().map(Authority::as_str)
    }
}

impl Forwarding {
    /// Records the origin of a request, removes the base path from its target, and returns the base
    /// path. A proxy may have removed the base path already.
    pub(in crate::http) fn receive<B>(&self, request: &mut Request<B>, peer: IpAddr) -> BasePath {
        let peer = peer.to_canonical();
        let is_trusted = self.trusted.contains(peer);
        let forwarded = if is_trusted {
            ForwardedHeaders::of(request.headers())
        } else {
            ForwardedHeaders::default()
        };
        let base = self.base.clone().or(forwarded.prefix).unwrap_or_default();
        if let Some(uri) = base.strip(request.uri()) {
            *request.uri_mut() = uri;
        }
        let host = forwarded.host.or_else(|| host(request.uri(), request.headers()));
        let client = self.client(peer, &forwarded.hops);
        request.extensions_mut().insert(Origin { client, is_secure: forwarded.is_secure, host });
        base
    }

    /// The address of the nearest hop that is not a trusted proxy. If a proxy does not name its client,
    /// the proxy counts as the client.
    fn client(&self, peer: IpAddr, hops: &[Node]) -> IpAddr {
        let mut client = peer;
        for hop in hops.iter().rev() {
            match hop {
                Node::Address(address) if self.trusted.contains(client) => client = *address,
                Node::Address(_) | Node::Unknown => break,
            }
        }
        client
    }
}

fn host(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let named = || headers.get(HOST)?.to_str().ok()?.parse().ok();
    // The part before an `@` may be a password.
    uri.authority().cloned().or_else(named).filter(|host| !host.as_str().contains('@'))
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.host.as_ref().map_or("", Authority::as_str))
    }
}

#[cfg(test)]
mod tests;
