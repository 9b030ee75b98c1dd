//! `twostep healthcheck`.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;

use super::serve::reachable;

const TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug, Args)]
pub(super) struct Command {
    /// Address that the service listens on
    #[arg(long, env = "TWOSTEP_BIND", default_value = "127.0.0.1:8080")]
    bind: SocketAddr,
}

impl Command {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let url = format!("http://{}/readyz", reachable(self.bind));
        let client = reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build()?;
        let response = client.get(&url).send().await.context("the service does not respond")?;
        if !response.status().is_success() {
            bail!("the service is not ready: {}", response.text().await.unwrap_or_default());
        }
        Ok(())
    }
}
