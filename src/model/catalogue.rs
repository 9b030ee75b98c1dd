//! Keeps what is known of models as the server tells it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::Model;
use crate::domain::model::Models;

/// How often the server is asked.
const EVERY: Duration = Duration::from_hours(1);

/// Asks the server for its models now and from time to time, until it is told to stop. A server
/// that has no list is no trouble: what is known without it holds. The list that servers of Chat
/// Completions have says nothing of what their models accept, so they are not asked.
pub async fn keep_current(model: Model, models: Arc<Models>, stop: CancellationToken) {
    let Model::Anthropic(client) = model else { return };
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let refresh = async {
        loop {
            ticks.tick().await;
            match client.models().await {
                Ok(known) => {
                    tracing::debug!(models = known.len(), "the server has told of its models");
                    models.refresh(known);
                }
                Err(error) => tracing::info!(%error, "what models accept is not refreshed"),
            }
        }
    };
    stop.run_until_cancelled(refresh).await;
}
