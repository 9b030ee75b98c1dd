//! The readers of the feed in this process, by tenant.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, broadcast};

use super::item::FeedItem;
use crate::domain::feed_position::FeedPosition;
use crate::domain::ids::TenantId;

/// The number of batches that a slow reader may lag behind before it reads the database.
const CAPACITY: usize = 64;
/// The maximum number of changed sessions that one read returns.
pub(super) const MAX_CHANGED: usize = 10_000;
/// The number of sessions that are read and sent at once.
pub(super) const CHUNK: usize = 100;

/// A part of the feed of one tenant.
#[derive(Debug)]
pub(crate) struct FeedBatch {
    /// The items.
    pub(crate) items: Vec<FeedItem>,
    /// The position that readers reach with the last part.
    pub(crate) to: FeedPosition,
    /// True for the first of the parts that lead to the position.
    pub(super) is_first: bool,
    /// True for the last of these parts.
    pub(crate) is_last: bool,
}

/// The readers of the process, by tenant.
#[derive(Debug, Default)]
pub(crate) struct ChangeFeed {
    tenants: Mutex<HashMap<TenantId, TenantFeed>>,
    joined: Notify,
}

#[derive(Debug)]
struct TenantFeed {
    /// The position up to which all readers have been sent the changes.
    from: FeedPosition,
    /// The earliest position of the readers that have joined since the last read began.
    joined: Option<FeedPosition>,
    sender: broadcast::Sender<Arc<FeedBatch>>,
}

impl ChangeFeed {
    pub(super) fn join(
        &self,
        tenant: TenantId,
        from: &FeedPosition,
    ) -> broadcast::Receiver<Arc<FeedBatch>> {
        let mut tenants = self.tenants();
        let feed = tenants.entry(tenant).or_insert_with(|| TenantFeed {
            from: from.clone(),
            joined: None,
            sender: broadcast::channel(CAPACITY).0,
        });
        feed.joined = Some(
            feed.joined.take().map_or_else(|| from.clone(), |other| earlier(other, from.clone())),
        );
        let receiver = feed.sender.subscribe();
        drop(tenants);
        self.joined.notify_one();
        receiver
    }

    /// The tenants with readers, and the earliest position that one of them needs; none without
    /// readers.
    pub(super) fn wanted(&self) -> Option<(Vec<TenantId>, FeedPosition)> {
        let mut tenants = self.tenants();
        tenants.retain(|_, feed| feed.sender.receiver_count() > 0);
        for feed in tenants.values_mut() {
            if let Some(joined) = feed.joined.take() {
                feed.from = earlier(feed.from.clone(), joined);
            }
        }
        let from = tenants.values().map(|feed| &feed.from).min_by(|one, other| one.order(other))?;
        Some((tenants.keys().copied().collect(), from.clone()))
    }

    pub(super) fn send(&self, tenant: TenantId, batch: FeedBatch) {
        if let Some(feed) = self.tenants().get_mut(&tenant) {
            // Fails only if there are no readers.
            let _ = feed.sender.send(Arc::new(batch));
        }
    }

    /// Continues after this position, but not after that of a reader that may have missed a part.
    pub(super) fn advance(&self, tenant: TenantId, to: &FeedPosition) {
        if let Some(feed) = self.tenants().get_mut(&tenant) {
            let joined = feed.joined.clone();
            feed.from = joined.map_or_else(|| to.clone(), |joined| earlier(joined, to.clone()));
        }
    }

    /// Closes the queues of all readers, which then read the database themselves.
    pub(super) fn close(&self) {
        self.tenants().clear();
    }

    /// Waits until a reader joins.
    pub(super) async fn reader(&self) {
        self.joined.notified().await;
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<TenantId, TenantFeed>> {
        // The map is consistent at every point, so a panic in another thread does not matter.
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn earlier(one: FeedPosition, other: FeedPosition) -> FeedPosition {
    if one.order(&other) == Ordering::Greater { other } else { one }
}

pub(super) fn max_changed() -> i64 {
    i64::try_from(MAX_CHANGED).unwrap_or(i64::MAX)
}
