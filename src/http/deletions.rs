//! ConcurrencyLimit at deleting sessions. What is large takes seconds, and has turns of its own: those who
//! delete little do not wait for it.

use crate::http::server::concurrency_limit::{ConcurrencyLimit, ConcurrencyPermit};

/// Deletions of each kind at a time, each over one of the connections for as long as it takes.
const AT_A_TIME: usize = 2;
/// From so many events on it is large: fewer are gone in a fraction of a second.
const LARGE: i64 = 10_000;

/// ConcurrencyLimit at deleting.
#[derive(Debug, Clone)]
pub(in crate::http) struct Deletions {
    small: ConcurrencyLimit,
    large: ConcurrencyLimit,
}

impl Deletions {
    pub(in crate::http) fn new() -> Self {
        let turns = || ConcurrencyLimit::of_requests(AT_A_TIME);
        Self { small: turns(), large: turns() }
    }

    /// A turn at deleting so many events; none if too many wait already, or it takes too long.
    pub(in crate::http) async fn take(&self, events: i64) -> Option<ConcurrencyPermit> {
        let turns = if events < LARGE { &self.small } else { &self.large };
        turns.acquire().await
    }
}
