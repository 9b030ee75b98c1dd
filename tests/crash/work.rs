//! Steps of scenarios: post messages, wait until a node executes a run, expire leases.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use sqlx::Executor as _;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use crate::approver::Approver;
use crate::cluster::NODES;
use crate::hold::REACHED_WITHIN;
use crate::testbed::{NodeEvent, Testbed};
use crate::watch::Watch;

/// Requests that post messages, with a watch and an approver until `end`.
pub(crate) struct Posts {
    requests: Vec<JoinHandle<anyhow::Result<String>>>,
    watch: Watch,
    approver: Approver,
}

impl Posts {
    /// Creates a session and posts messages to it concurrently, first to the first node.
    pub(crate) async fn start(
        testbed: &Arc<Testbed>,
        kind: &str,
        messages: usize,
    ) -> anyhow::Result<Self> {
        let session = testbed.session_for(kind).await?;
        if kind == "long" {
            // A compaction replaces only messages of earlier runs.
            let run = testbed.post(0, &session, "long.past").await?;
            ensure!(testbed.settled(&run, REACHED_WITHIN).await, "the first run does not settle");
        }
        let watch = Watch::start(testbed);
        let approver = Approver::start(testbed, &session);
        let post = |number| {
            let (testbed, session) = (Arc::clone(testbed), session.clone());
            let text = format!("{kind}.m{number}");
            TaskTracker::new().spawn(async move { testbed.post(0, &session, &text).await })
        };
        Ok(Self { requests: (0..messages).map(post).collect(), watch, approver })
    }

    /// Waits until all messages are accepted.
    pub(crate) async fn accepted(&mut self) -> anyhow::Result<()> {
        for post in std::mem::take(&mut self.requests) {
            post.await??;
        }
        Ok(())
    }

    /// Stops the watch and the approver. All runs must have settled.
    pub(crate) async fn end(self) {
        drop(self.approver);
        self.watch.finish().await;
    }
}

/// Waits until a node executes a run.
pub(crate) async fn wait_until_working(testbed: &Testbed, index: usize) -> anyhow::Result<()> {
    let deadline = Instant::now() + REACHED_WITHIN;
    let node = NODES.get(index).context("no such node")?;
    let running = "SELECT count(*) FROM crash.starts b JOIN runs r ON r.id = b.run_id
                  WHERE node = $1 AND r.status = 'running' AND r.attempt = b.attempt";
    loop {
        let count: i64 = sqlx::query_scalar(running).bind(node).fetch_one(&testbed.pool).await?;
        if count > 0 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{node} claims no run");
        sleep(Duration::from_millis(5)).await;
    }
}

impl Testbed {
    /// Returns the number of running runs that the given nodes hold.
    pub(crate) async fn live_runs(&self, indices: &[usize]) -> anyhow::Result<i64> {
        let nodes: Vec<&str> =
            indices.iter().filter_map(|index| NODES.get(*index).copied()).collect();
        let live = "SELECT count(*) FROM crash.starts b JOIN runs r ON r.id = b.run_id
                    WHERE node = ANY($1) AND r.status = 'running' AND r.attempt = b.attempt";
        Ok(sqlx::query_scalar(live).bind(nodes).fetch_one(&self.pool).await?)
    }

    /// The number of runs during which workers died repeatedly, as audit.sql has it.
    pub(crate) async fn suspects(&self) -> anyhow::Result<i64> {
        let suspects =
            "SELECT count(*) FROM runs WHERE status = 'running' AND takeovers BETWEEN 3 AND 6";
        Ok(sqlx::query_scalar(suspects).fetch_one(&self.pool).await?)
    }
}

/// Expires all leases, so that the test does not have to wait for that.
pub(crate) async fn expire_leases(testbed: &Testbed) -> anyhow::Result<()> {
    testbed.record(None, NodeEvent::Stopped);
    let end = "UPDATE runs SET lease_until = now() - interval '1 second' WHERE status = 'running'";
    testbed.pool.execute(end).await?;
    Ok(())
}
