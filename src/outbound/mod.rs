//! Requests to URLs from callers and the model: the rules for allowed hosts, and HTTP clients that
//! enforce them at connection time, after name resolution (protection against SSRF).

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
pub use fetch::{MAX_PAGE, PAGE_TIMEOUT, Page, PageError};
pub use hosts::{AllowedHosts, BadHost, Reach, RefusedUrl};
use resolver::PublicOnly;

/// HTTP clients for untrusted URLs.
#[derive(Debug, Clone)]
pub struct Outbound {
    hosts: AllowedHosts,
    /// The client for hosts that the operator listed.
    listed: Client,
    /// The client for all other hosts.
    public: Client,
}

impl Outbound {
    /// Creates clients with these rules and this timeout per request. The clients do not follow
    /// redirects, because the caller must validate the new URL first.
    pub fn new(hosts: AllowedHosts, timeout: Duration) -> reqwest::Result<Self> {
        let builder = || {
            Client::builder()
                .user_agent(concat!("twostep/", env!("CARGO_PKG_VERSION")))
                .redirect(Policy::none())
                // A proxy would resolve names itself and bypass the address check.
                .no_proxy()
                .timeout(timeout)
        };
        let listed = builder().build()?;
        let public = builder().https_only(true).dns_resolver(PublicOnly).build()?;
        Ok(Self { hosts, listed, public })
    }

    /// Returns `true` if the operator listed the host of the URL, and also allows all public hosts.
    pub fn is_listed_beside_public(&self, url: &Url) -> bool {
        self.hosts.is_listed_beside_public(url)
    }

    /// Returns `true` if the operator listed hosts, and also allows all public hosts.
    pub const fn has_listed_beside_public(&self) -> bool {
        self.hosts.are_listed_beside_public()
    }

    /// Returns the client for this URL, or the reason that the URL is refused.
    pub fn client(&self, url: &Url) -> Result<&Client, RefusedUrl> {
        Ok(self.client_by(self.hosts.reach(url)?))
    }

    fn client_by(&self, reach: Reach) -> &Client {
        match reach {
            Reach::Listed => &self.listed,
            Reach::Public => &self.public,
        }
    }
}
