//! Work that a story is about: posts under way, runs in hands, leases that end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use sqlx::Executor as _;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use crate::approver::Approver;
use crate::arena::{Arena, Deed};
use crate::cluster::NODES;
use crate::hold::REACHED_WITHIN;
use crate::watch::Watch;

/// Posts under way, and a watcher as long as they are kept.
pub(crate) struct Posts {
    under_way: Vec<JoinHandle<anyhow::Result<String>>>,
    watch: Watch,
    approver: Approver,
}

impl Posts {
    /// Makes a session and posts messages to it, all at once, first to the first node.
    pub(crate) async fn start(
        arena: &Arc<Arena>,
        kind: &str,
        messages: usize,
    ) -> anyhow::Result<Self> {
        let session = arena.session_for(kind).await?;
        if kind == "long" {
            // Only what came before a run can be summed up.
            let run = arena.post(0, &session, "long.past").await?;
            ensure!(arena.settled(&run, REACHED_WITHIN).await, "the past does not settle");
        }
        let watch = Watch::start(arena);
        let approver = Approver::start(arena, &session);
        let post = |number| {
            let (arena, session) = (Arc::clone(arena), session.clone());
            let text = format!("{kind}.m{number}");
            TaskTracker::new().spawn(async move { arena.post(0, &session, &text).await })
        };
        Ok(Self { under_way: (0..messages).map(post).collect(), watch, approver })
    }

    /// Waits until all of them are accepted.
    pub(crate) async fn accepted(&mut self) -> anyhow::Result<()> {
        for post in std::mem::take(&mut self.under_way) {
            post.await??;
        }
        Ok(())
    }

    /// Nothing more will happen.
    pub(crate) async fn end(self) {
        drop(self.approver);
        self.watch.finish().await;
    }
}

/// Waits until a node has said that it drives a run.
pub(crate) async fn at_work(arena: &Arena, seat: usize) -> anyhow::Result<()> {
    let deadline = Instant::now() + REACHED_WITHIN;
    let node = NODES.get(seat).context("no such node")?;
    let begins = "SELECT count(*) FROM crash.begins b JOIN runs r ON r.id = b.run_id
                  WHERE node = $1 AND r.status = 'running' AND r.attempt = b.attempt";
    loop {
        let count: i64 = sqlx::query_scalar(begins).bind(node).fetch_one(&arena.pool).await?;
        if count > 0 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{node} takes no run up");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Ends all leases, so that nobody has to wait for it.
pub(crate) async fn take_leases_away(arena: &Arena) -> anyhow::Result<()> {
    arena.note(None, Deed::Stopped);
    let end = "UPDATE runs SET lease_until = now() - interval '1 second' WHERE status = 'running'";
    arena.pool.execute(end).await?;
    Ok(())
}
