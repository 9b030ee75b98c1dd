//! What proxies before the service say of a client, and under which path clients see the service.
//!
//! Anybody can send these headers. They are believed from proxies that the operator trusts, and of
//! a chain of proxies only as far as each of them is trusted.

mod base;
mod said;
mod trusted;

use std::fmt;
use std::net::IpAddr;

use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, Request, Uri};

pub(in crate::http) use base::{BASE, carry, link, public};
pub use base::{BadBasePath, BasePath};
use said::{Node, Said};
pub use trusted::{BadProxy, TrustedProxies};

/// How requests come to the service.
#[derive(Debug, Clone, Default)]
pub struct Forwarding {
    /// Whose headers are believed.
    pub trusted: TrustedProxies,
    /// Where clients see the service; None: where trusted proxies say.
    pub base: Option<BasePath>,
}

/// Whence a request comes, for logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http) struct Origin {
    /// The client, as far as those are trusted who speak for it.
    pub(in crate::http) client: IpAddr,
    /// Whether the client speaks TLS, to somebody before us.
    is_secure: bool,
    /// Whom the client asks.
    host: Option<Authority>,
}

impl Origin {
    /// Whom the client asks, with the port, as far as those are trusted who say so.
    pub(in crate::http) fn host(&self) -> Option<&str> {
        self.host.as_ref().map(Authority::as_str)
    }
}

impl Forwarding {
    /// Finds out who asks and under which path, and leaves the request with a path that routes
    /// know. A proxy may take the base off the path, or leave it.
    pub(in crate::http) fn receive<B>(&self, request: &mut Request<B>, peer: IpAddr) -> BasePath {
        let peer = peer.to_canonical();
        let is_trusted = self.trusted.contains(peer);
        let said = if is_trusted { Said::of(request.headers()) } else { Said::default() };
        let base = self.base.clone().or(said.prefix).unwrap_or_default();
        if let Some(uri) = base.strip(request.uri()) {
            *request.uri_mut() = uri;
        }
        let host = said.host.or_else(|| host(request.uri(), request.headers()));
        let client = self.client(peer, &said.hops);
        request.extensions_mut().insert(Origin { client, is_secure: said.is_secure, host });
        base
    }

    /// The nearest one that is no trusted proxy. One that a proxy does not name is that proxy.
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
    // What stands before an `@` may be a password.
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
