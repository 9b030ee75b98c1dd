//! The trusted proxies.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;

/// The networks of trusted proxies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedProxies(Arc<[IpNet]>);

/// An invalid address or network.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is neither an address nor a network such as 10.0.0.0/8, and not `none`")]
pub struct BadProxy(String);

impl Default for TrustedProxies {
    /// Loopback addresses: a local process needs no forged headers to reach the service.
    fn default() -> Self {
        let v4 = IpNet::new_assert([127, 0, 0, 0].into(), 8);
        Self([v4, IpNet::from(IpAddr::from(std::net::Ipv6Addr::LOCALHOST))].into())
    }
}

impl FromStr for TrustedProxies {
    type Err = BadProxy;

    /// Parses comma-separated addresses and networks, or `none`.
    fn from_str(text: &str) -> Result<Self, BadProxy> {
        if text == "none" {
            return Ok(Self([].into()));
        }
        let network = |text: &str| {
            let address = || text.parse::<IpAddr>().map(|ip| IpNet::from(ip.to_canonical()));
            text.parse::<IpNet>().or_else(|_| address()).map_err(|_| BadProxy(text.to_owned()))
        };
        text.split(',').map(|text| network(text.trim())).collect::<Result<_, _>>().map(Self)
    }
}

impl TrustedProxies {
    /// Reports whether an address belongs to a trusted proxy.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}
