//! Requests to hosts that somebody else than the operator names: which may be asked, and a client
//! that asks no other, whatever a name resolves to at that moment.

mod address;
mod body;
mod fetch;
mod hosts;
mod resolver;

use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, Url};

pub use address::is_public;
pub use body::{BadBody, read_body};
pub use fetch::{MAX_PAGE, NoPage, PAGE_TIMEOUT, Page};
pub use hosts::{AllowedHosts, BadHost, Reach, Refused};
use resolver::PublicOnly;

/// Clients for hosts that somebody else names.
#[derive(Debug, Clone)]
pub struct Outbound {
    hosts: AllowedHosts,
    /// For hosts that the operator has listed.
    listed: Client,
    /// For all others.
    public: Client,
}

impl Outbound {
    /// Clients that ask the hosts that are allowed. An answer that takes longer is given up.
    /// Redirects are not followed: whoever follows one has to look at the new address first.
    pub fn new(hosts: AllowedHosts, timeout: Duration) -> reqwest::Result<Self> {
        let builder = || {
            Client::builder()
                .user_agent(concat!("twostep/", env!("CARGO_PKG_VERSION")))
                .redirect(Policy::none())
                // A proxy would resolve names in our place.
                .no_proxy()
                .timeout(timeout)
        };
        let listed = builder().build()?;
        let public = builder().https_only(true).dns_resolver(PublicOnly).build()?;
        Ok(Self { hosts, listed, public })
    }

    /// The client that may ask this URL, if one may.
    pub fn client(&self, url: &Url) -> Result<&Client, Refused> {
        Ok(self.client_by(self.hosts.reach(url)?))
    }

    fn client_by(&self, reach: Reach) -> &Client {
        match reach {
            Reach::Listed => &self.listed,
            Reach::Public => &self.public,
        }
    }
}
