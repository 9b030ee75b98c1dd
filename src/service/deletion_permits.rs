//! The limit on concurrent deletions of sessions.
//!
//! A large deletion takes seconds. Large and small deletions have separate permits, so that small
//! ones do not wait for large ones.

use super::concurrency_limit::{ConcurrencyLimit, ConcurrencyPermit, MAX_WAIT, MAX_WAITING};

/// Concurrent deletions of each kind. Each holds a database connection.
const CONCURRENT: usize = 2;
/// The number of events from which a deletion is large: fewer take a fraction of a second.
const LARGE: i64 = 10_000;

/// Permits to delete sessions.
#[derive(Debug, Clone)]
pub(super) struct DeletionPermits {
    small: ConcurrencyLimit,
    large: ConcurrencyLimit,
}

impl DeletionPermits {
    pub(super) fn new() -> Self {
        let limit = || ConcurrencyLimit::new(CONCURRENT, MAX_WAITING, MAX_WAIT);
        Self { small: limit(), large: limit() }
    }

    /// Waits for a permit to delete this number of events. Returns none if the queue is full or the
    /// wait takes too long.
    pub(super) async fn acquire(&self, events: i64) -> Option<ConcurrencyPermit> {
        let permits = if events < LARGE { &self.small } else { &self.large };
        permits.acquire().await
    }
}
