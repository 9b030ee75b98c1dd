//! Checks every second the invariants that hold at every moment.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::testbed::Testbed;

/// A task that checks the invariants. It stops when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    task: JoinHandle<()>,
    stop: DropGuard,
}

impl Watch {
    pub(crate) fn start(testbed: &Arc<Testbed>) -> Self {
        let stop = CancellationToken::new();
        let testbed = Arc::clone(testbed);
        let stopped = stop.clone();
        let task = TaskTracker::new().spawn(async move {
            let mut known = BTreeSet::new();
            while stopped.run_until_cancelled(sleep(Duration::from_secs(1))).await.is_some() {
                testbed.check_always(&mut known).await;
            }
        });
        Self { task, stop: stop.drop_guard() }
    }

    pub(crate) async fn finish(self) {
        drop(self.stop);
        let _ = self.task.await;
    }
}

impl Testbed {
    /// Checks the invariants that hold at every moment and reports new violations.
    pub(crate) async fn check_always(&self, known: &mut BTreeSet<(String, String)>) {
        let always = include_str!("../support/always.sql");
        // An unavailable database is not a violation of these invariants.
        let Ok(broken) = sqlx::query_as(always).fetch_all(&self.pool).await else { return };
        for row in broken {
            let row: (String, String) = row;
            if known.insert(row.clone()) {
                self.tally.broken_invariants.add(1);
                self.violation(&format!("broken while running: {} ({})", row.0, row.1));
            }
        }
    }
}
