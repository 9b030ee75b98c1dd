//! Names that resolve to public addresses only.

use std::io;
use std::net::SocketAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::lookup_host;

use super::is_public;

/// Resolves names when a connection is made, so that what was looked at is what is connected to.
/// A name with one address that is not public is refused whole: nobody has such a name by accident.
#[derive(Debug, Clone, Copy)]
pub(super) struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> = lookup_host((name.as_str(), 0)).await?.collect();
            if !found.iter().all(|address| is_public(address.ip())) {
                let refused = format!("{} has an address that is not public", name.as_str());
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, refused).into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
