//! What stands before the service.

use clap::Args;

use crate::http::{BasePath, Forwarding, TrustedProxies};

/// What stands before the service.
#[derive(Debug, Clone, Args)]
pub struct ForwardingArgs {
    /// The proxies whose `Forwarded` and `X-Forwarded-*` headers are believed: addresses and
    /// networks, or `none`
    #[arg(
        long,
        env = "TWOSTEP_TRUSTED_PROXIES",
        value_name = "NETWORKS",
        default_value = "127.0.0.0/8,::1"
    )]
    pub trusted_proxies: TrustedProxies,
    /// Where clients see the service, such as /agent: links begin with it, and it is served with
    /// and without it [default: what trusted proxies say in `X-Forwarded-Prefix`, or /]
    #[arg(long, env = "TWOSTEP_BASE_PATH", value_name = "PATH")]
    pub base_path: Option<BasePath>,
}

impl ForwardingArgs {
    pub(super) fn into_forwarding(self) -> Forwarding {
        Forwarding { trusted: self.trusted_proxies, base: self.base_path }
    }
}
