//! Refreshes the capabilities of models from the server's list.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::Model;
use crate::domain::model::Models;

/// The interval between two requests for the list.
const INTERVAL: Duration = Duration::from_hours(1);

/// Requests the list of models now and once per interval until `stop` is cancelled. If a server
/// has no list, the built-in capabilities stay in use. Servers of Chat Completions are not
/// queried: their lists do not state capabilities.
pub async fn refresh_periodically(model: Model, models: Arc<Models>, stop: CancellationToken) {
    let Model::Anthropic(client) = model else { return };
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let refresh = async {
        loop {
            ticks.tick().await;
            match client.models().await {
                Ok(known) => {
                    tracing::debug!(models = known.len(), "model capabilities refreshed");
                    models.refresh(known);
                }
                Err(error) => tracing::info!(%error, "model capabilities not refreshed"),
            }
        }
    };
    stop.run_until_cancelled(refresh).await;
}
