//! Names that resolve to public addresses only.

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
            let found = lookup_host((name.as_str(), 0)).await.map(Vec::from_iter);
            match found {
                Ok(found) if found.iter().all(|address| is_public(address.ip())) => {
                    Ok(Box::new(found.into_iter()) as Addrs)
                }
                // Who names it is not told which: these are the names of somebody's own network.
                Ok(_) | Err(_) => {
                    Err(Box::from("the host has no address, or one that is not public"))
                }
            }
        })
    }
}
