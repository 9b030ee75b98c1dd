//! The watch of the feed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sqlx::PgConnection;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::feed::{CHUNK, FeedBatch, MAX_CHANGED, max_changed};
use super::load::read_items;
use crate::domain::feed_position::FeedPosition;
use crate::domain::ids::TenantId;
use crate::service::error::Error;
use crate::service::state::Service;
use crate::store::change_feed::{ChangedSession, list_changes};
use crate::store::retry::in_time;

/// The interval at which the changes are read without a signal, which may have been lost.
const INTERVAL: Duration = Duration::from_secs(10);
/// The shortest pause between two reads.
const PAUSE: Duration = Duration::from_millis(100);
/// The pause between two reads, in times of the last one.
const PAUSE_FACTOR: u32 = 5;

/// Reads the changes for the readers of this process, until `stop` is cancelled. Without readers it
/// reads nothing.
pub async fn watch_changes(service: Arc<Service>, stop: CancellationToken) {
    let watch = async {
        loop {
            watch_for_readers(&service).await;
            service.change_feed.reader().await;
        }
    };
    stop.run_until_cancelled(Box::pin(watch)).await;
}

/// Reads the changes as long as there are readers.
async fn watch_for_readers(service: &Service) {
    let mut signals = service.bus.subscribe_to_lists();
    while let Some((tenants, from)) = service.change_feed.wanted() {
        // The signals that come during the read wait in the queue.
        while let Some(Some(_)) = signals.try_next() {}
        let began_at = Instant::now();
        if let Err(error) = in_time(read(service, &tenants, &from)).await {
            tracing::debug!(%error, "changes of sessions could not be read");
        }
        // Changes that follow each other closely are read together.
        sleep((began_at.elapsed() * PAUSE_FACTOR).clamp(PAUSE, INTERVAL)).await;
        if let Ok(None) = timeout(INTERVAL, signals.next()).await {
            signals = service.bus.subscribe_to_lists();
        }
    }
}

async fn read(service: &Service, tenants: &[TenantId], from: &FeedPosition) -> Result<(), Error> {
    let read = service.admission_pool.with(async |conn: &mut PgConnection| {
        list_changes(conn, tenants, from, max_changed()).await
    });
    let piece = read.await?;
    if piece.sessions.len() >= MAX_CHANGED {
        service.change_feed.close();
        return Ok(());
    }
    let mut by_tenant: HashMap<TenantId, Vec<ChangedSession>> = HashMap::new();
    for changed in piece.sessions {
        by_tenant.entry(changed.tenant).or_default().push(changed);
    }
    for tenant in tenants {
        let changed = by_tenant.remove(tenant).unwrap_or_default();
        for (n, chunk) in changed.chunks(CHUNK).enumerate() {
            let items = read_items(service, *tenant, chunk).await?;
            let (is_first, is_last) = (n == 0, (n + 1) * CHUNK >= changed.len());
            let batch = FeedBatch { items, to: piece.to.clone(), is_first, is_last };
            service.change_feed.send(*tenant, batch);
        }
        service.change_feed.advance(*tenant, &piece.to);
    }
    Ok(())
}
