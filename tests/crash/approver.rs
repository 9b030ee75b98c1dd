//! A client that allows every call that waits for an approval.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::testbed::Testbed;

/// The calls of a session that wait for an approval, of suspended runs.
const WAITING: &str = "SELECT c.tool_use_id FROM tool_calls c JOIN runs r ON r.id = c.run_id
    WHERE c.session_id = $1::uuid AND c.awaits = 'approval' AND c.decision IS NULL
      AND c.state = 'planned' AND r.status = 'requires_action' AND r.lease_owner IS NULL";

/// A task that allows calls. It stops when this is dropped.
#[derive(Debug)]
pub(crate) struct Approver {
    _stop: DropGuard,
}

impl Approver {
    pub(crate) fn start(testbed: &Arc<Testbed>, session: &str) -> Self {
        let stop = CancellationToken::new();
        let (testbed, session) = (Arc::clone(testbed), session.to_owned());
        let stopped = stop.clone();
        TaskTracker::new().spawn(async move {
            let pause = Duration::from_millis(50);
            while stopped.run_until_cancelled(sleep(pause)).await.is_some() {
                // Errors of an unavailable database or node are temporary.
                let _ = testbed.allow_waiting(&session).await;
            }
        });
        Self { _stop: stop.drop_guard() }
    }
}

impl Testbed {
    async fn allow_waiting(&self, session: &str) -> anyhow::Result<()> {
        let id = session.trim_start_matches("ses_");
        let calls: Vec<String> = sqlx::query_scalar(WAITING).bind(id).fetch_all(&self.pool).await?;
        for call in calls {
            self.allow(session, &call).await?;
        }
        Ok(())
    }
}
