//! The signals that stop a run.

use std::time::Duration;

use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use super::stop_cause::StopCause;
use crate::tools::lease::LeaseClock;

/// The signals that stop one run.
#[derive(Debug, Clone)]
pub(in crate::worker) struct Signals {
    /// The client cancelled the run: settle it.
    pub(in crate::worker) cancel: CancellationToken,
    /// The worker is shutting down: release the run at the next safe point.
    pub(in crate::worker) drain: CancellationToken,
    /// The drain period has ended: release the run now. It may still write.
    pub(in crate::worker) release_now: CancellationToken,
    /// The lease is lost: write nothing more.
    pub(in crate::worker) lost: CancellationToken,
    /// The lease, which is checked before a file is changed.
    pub(in crate::worker) lease: LeaseClock,
}

/// The signals by which a worker stops all of its runs.
#[derive(Debug, Default)]
pub(in crate::worker) struct ShutdownSignals {
    /// Release at the next safe point.
    pub(in crate::worker) drain: CancellationToken,
    /// Release now.
    pub(in crate::worker) release_now: CancellationToken,
}

impl Signals {
    /// The signals of a run of a worker whose claim was requested at this time since boot.
    pub(in crate::worker) fn new(shutdown: &ShutdownSignals, asked_at: Duration) -> Self {
        Self {
            cancel: CancellationToken::new(),
            drain: shutdown.drain.clone(),
            release_now: shutdown.release_now.clone(),
            lost: CancellationToken::new(),
            lease: LeaseClock::claimed(asked_at),
        }
    }

    /// Signals that the lease is lost.
    pub(in crate::worker) fn lose(&self) {
        self.lease.lose();
        self.lost.cancel();
    }

    /// Completes when the run may wait no longer for the database.
    pub(in crate::worker) async fn lost_or_released(&self) {
        tokio::select! {
            () = self.lost.cancelled() => {}
            () = self.release_now.cancelled() => {}
        }
    }

    // The functions below are not `async fn`s, which would hold `work` twice.

    /// Runs `work` unless the lease is lost first.
    pub(in crate::worker) fn unless_lost<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = Result<T, StopCause>> {
        unless(self.lost(), work)
    }

    /// Runs `work` unless the run is stopped first.
    pub(in crate::worker) fn unless_stopped<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = Result<T, StopCause>> {
        unless(self.stopped(), work)
    }

    /// Runs `wait`, which can be abandoned at any point, unless the run is stopped or the worker
    /// begins to drain first.
    pub(in crate::worker) fn unless_draining<T>(
        &self,
        wait: impl Future<Output = T>,
    ) -> impl Future<Output = Result<T, StopCause>> {
        let drain = async {
            self.drain.cancelled().await;
            StopCause::ShuttingDown
        };
        unless(drain, self.unless_stopped(wait)).map(Result::flatten)
    }

    async fn lost(&self) -> StopCause {
        self.lost.cancelled().await;
        StopCause::LeaseLost
    }

    async fn stopped(&self) -> StopCause {
        tokio::select! {
            biased;
            cause = self.lost() => cause,
            () = self.cancel.cancelled() => StopCause::Cancelled,
            () = self.release_now.cancelled() => StopCause::ShuttingDown,
        }
    }
}

/// Runs `work` unless `stop` completes first.
async fn unless<T>(
    stop: impl Future<Output = StopCause>,
    work: impl Future<Output = T>,
) -> Result<T, StopCause> {
    tokio::select! {
        biased;
        cause = stop => Err(cause),
        done = work => Ok(done),
    }
}
