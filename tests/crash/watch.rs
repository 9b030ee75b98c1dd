//! A second look every second: what must hold at every moment.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::arena::Arena;

/// A watcher at work. It stops when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    task: JoinHandle<()>,
    stop: DropGuard,
}

impl Watch {
    pub(crate) fn start(arena: &Arc<Arena>) -> Self {
        let stop = CancellationToken::new();
        let arena = Arc::clone(arena);
        let stopped = stop.clone();
        let task = TaskTracker::new().spawn(async move {
            let mut known = BTreeSet::new();
            while stopped.run_until_cancelled(sleep(Duration::from_secs(1))).await.is_some() {
                arena.look(&mut known).await;
            }
        });
        Self { task, stop: stop.drop_guard() }
    }

    pub(crate) async fn finish(self) {
        drop(self.stop);
        let _ = self.task.await;
    }
}

impl Arena {
    /// Looks for what must not be at any moment, and tells what is new.
    pub(crate) async fn look(&self, known: &mut BTreeSet<(String, String)>) {
        let always = include_str!("../support/always.sql");
        // A database that is away is somebody else's finding.
        let Ok(broken) = sqlx::query_as(always).fetch_all(&self.pool).await else { return };
        for row in broken {
            let row: (String, String) = row;
            if known.insert(row.clone()) {
                self.tally.broken_invariants.add(1);
                self.red(&format!("at some moment not: {} ({})", row.0, row.1));
            }
        }
    }
}
