//! Limits on expensive operations: how many run at once, and how many wait to start.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The number of requests that may wait for an operation of a client, and for how long.
pub(super) const MAX_WAITING: usize = 64;
pub(super) const MAX_WAIT: Duration = Duration::from_secs(10);

/// A limit on one kind of operation.
#[derive(Debug, Clone)]
pub(crate) struct ConcurrencyLimit {
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    max_wait: Duration,
}

/// The right to run one operation; returned when it is dropped.
#[derive(Debug)]
pub(crate) struct ConcurrencyPermit {
    _permit: OwnedSemaphorePermit,
}

impl ConcurrencyLimit {
    /// Lets `max_running` operations run at once, and `max_waiting` more wait for `max_wait` each.
    pub(crate) fn new(max_running: usize, max_waiting: usize, max_wait: Duration) -> Self {
        let [running, waiting] = [max_running, max_waiting].map(|n| Arc::new(Semaphore::new(n)));
        Self { running, waiting, max_wait }
    }

    /// Waits for a permit; none if too many operations wait already, or after the maximum wait.
    pub(crate) async fn acquire(&self) -> Option<ConcurrencyPermit> {
        let running = || Arc::clone(&self.running);
        if let Ok(permit) = running().try_acquire_owned() {
            return Some(ConcurrencyPermit { _permit: permit });
        }
        let _waiting = self.waiting.try_acquire().ok()?;
        let permit = timeout(self.max_wait, running().acquire_owned()).await.ok()?.ok()?;
        Some(ConcurrencyPermit { _permit: permit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_refuses_at_once_and_a_long_wait_in_time() {
        let limit = ConcurrencyLimit::new(1, 2, Duration::from_secs(5));
        let first = limit.acquire().now_or_never().flatten().unwrap();
        let began = Instant::now();
        let (mut second, third) = (Box::pin(limit.acquire()), Box::pin(limit.acquire()));
        assert!((&mut second).now_or_never().is_none());
        let mut third = third;
        assert!((&mut third).now_or_never().is_none());
        assert!(limit.acquire().now_or_never().unwrap().is_none(), "the queue is full");

        drop(first);
        let second = second.await.unwrap();
        assert!(limit.acquire().now_or_never().is_none(), "there is room in the queue");
        assert!(third.await.is_none(), "no permit was returned");
        assert_eq!(began.elapsed().as_secs(), 5);
        drop(second);
        assert!(limit.acquire().now_or_never().flatten().is_some());
    }
}
