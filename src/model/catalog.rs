//! Refreshes the capabilities of models from the servers' lists.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{Model, ModelServers, anthropic};
use crate::domain::model::Models;

/// The interval between two requests for the list of a server.
const INTERVAL: Duration = Duration::from_hours(1);

/// The servers whose lists of models are read, and the catalog that receives them.
#[derive(Debug)]
pub struct Catalog {
    /// The clients, with the names of their providers.
    servers: Vec<(Option<Box<str>>, anthropic::Client)>,
    models: Arc<Models>,
}

impl Catalog {
    /// The catalog of these servers. Servers of other protocols are not queried: their lists do not
    /// state capabilities. Clouds have no list.
    pub fn of(servers: &ModelServers, models: Arc<Models>) -> Self {
        let servers = servers.iter().filter_map(|server| match &server.client {
            Model::Anthropic(client) if client.platform().is_none() => {
                Some((server.name().map(Box::from), client.clone()))
            }
            Model::Anthropic(_) | Model::OpenAi(_) | Model::Responses(_) => None,
        });
        Self { servers: servers.collect(), models }
    }

    /// Requests the lists now and once per interval until `stop` is cancelled. If a server has no
    /// list, the built-in capabilities stay in use.
    pub async fn refresh_periodically(self, stop: CancellationToken) {
        let models = &self.models;
        let refreshes = self
            .servers
            .iter()
            .map(|(provider, client)| refresh(models, provider.as_deref(), client));
        stop.run_until_cancelled(join_all(refreshes)).await;
    }
}

async fn refresh(models: &Models, provider: Option<&str>, client: &anthropic::Client) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match client.models().await {
            Ok(known) => {
                let count = known.len();
                tracing::debug!(model.provider = provider, count, "models refreshed");
                models.refresh(provider, known);
            }
            Err(error) => tracing::info!(
                model.provider = provider, %error, "model capabilities not refreshed"
            ),
        }
    }
}
