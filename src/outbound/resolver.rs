//! A DNS resolver that refuses names with addresses that are not public.

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::lookup_host;

use super::is_public;

/// A resolver that runs when a connection is made, so that the checked addresses are the ones that
/// the client connects to. It refuses a name entirely if one of its addresses is not public.
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
                // The error does not distinguish the two cases, to disclose no internal names.
                Ok(_) | Err(_) => {
                    Err(Box::from("the host has no address, or one that is not public"))
                }
            }
        })
    }
}
