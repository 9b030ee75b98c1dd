//! Reverse proxies in front of the service.

use clap::Args;

use crate::http::{BasePath, Forwarding, TrustedProxies};

/// Options for reverse proxies.
#[derive(Debug, Clone, Args)]
pub struct ForwardingArgs {
    /// Proxies whose `Forwarded` and `X-Forwarded-*` headers are trusted: IP addresses and networks,
    /// or `none`
    #[arg(
        long,
        env = "TWOSTEP_TRUSTED_PROXIES",
        value_name = "NETWORKS",
        default_value = "127.0.0.0/8,::1"
    )]
    pub trusted_proxies: TrustedProxies,
    /// Base path under which clients reach the service, such as /agent: links start with it, and
    /// requests are accepted with and without it [default: `X-Forwarded-Prefix` of a trusted proxy,
    /// or /]
    #[arg(long, env = "TWOSTEP_BASE_PATH", value_name = "PATH")]
    pub base_path: Option<BasePath>,
}

impl ForwardingArgs {
    pub(super) fn into_forwarding(self) -> Forwarding {
        Forwarding { trusted: self.trusted_proxies, base: self.base_path }
    }
}
