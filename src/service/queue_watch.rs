//! The watch of the queue: its length for operators, and the positions of runs for the readers that
//! wait for them.

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgConnection;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::bus::Bus;
use crate::domain::explanation::RunQueuePosition;
use crate::metrics::Metrics;
use crate::store::connections::Connections;
use crate::store::retry::in_time;
use crate::store::run_queue::{RunQueue, list};

/// The interval at which each process reads the queue.
const INTERVAL: Duration = Duration::from_secs(2);

/// Reads the queue periodically until `stop` is cancelled. `pool` sees all tenants.
pub async fn watch_queue(
    pool: Connections,
    bus: Arc<Bus>,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let read = pool.with(async |conn: &mut PgConnection| list(conn).await);
        match in_time(read).await {
            Ok(queue) => show(&queue, &bus, &metrics),
            Err(error) => tracing::debug!(%error, "queue could not be read"),
        }
    }
}

fn show(queue: &RunQueue, bus: &Bus, metrics: &Metrics) {
    metrics.queue(queue.length, queue.oldest_seconds);
    let positions = queue.runs.iter().map(|run| {
        let position = RunQueuePosition { position: run.position, length: queue.length };
        (run.session_id, (run.run_id, position))
    });
    bus.queue_positions(&positions.collect());
}
