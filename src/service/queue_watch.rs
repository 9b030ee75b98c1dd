//! The watch of the queue: its length for operators, and the positions of runs for the readers that
//! wait for them.

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgConnection;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::bus::Bus;
use crate::domain::explanation::RunQueuePosition;
use crate::metrics::Metrics;
use crate::store::connections::Connections;
use crate::store::retry::in_time;
use crate::store::run_queue::{RunQueue, list};

/// The interval at which each process reads the queue without a signal.
const INTERVAL: Duration = Duration::from_secs(2);
/// The shortest pause between two reads.
const PAUSE: Duration = Duration::from_millis(100);
/// The pause between two reads, in times of the last one: reading a long queue takes time.
const PAUSE_FACTOR: u32 = 10;

/// Reads the queue when it changes, and periodically, until `stop` is cancelled. `pool` sees all
/// tenants.
pub async fn watch_queue(
    pool: Connections,
    bus: Arc<Bus>,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) {
    loop {
        let began_at = Instant::now();
        let read = pool.with(async |conn: &mut PgConnection| list(conn).await);
        match in_time(read).await {
            Ok(queue) => show(&queue, &bus, &metrics),
            Err(error) => tracing::debug!(%error, "queue could not be read"),
        }
        let pause = (began_at.elapsed() * PAUSE_FACTOR).clamp(PAUSE, INTERVAL);
        if stop.run_until_cancelled(change(&bus, pause)).await.is_none() {
            return;
        }
    }
}

/// Waits until the queue may have changed, but at least for the pause, and at most for the interval.
async fn change(bus: &Bus, pause: Duration) {
    let not_before = Instant::now() + pause;
    tokio::select! {
        () = sleep(INTERVAL) => {}
        () = async {
            bus.queue_change().await;
            sleep_until(not_before).await;
        } => {}
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
