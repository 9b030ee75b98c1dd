//! A bound on concurrent work of one kind, with a bounded queue before it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The queue length and timeout that suit an HTTP request which waits for a permit.
const MAX_WAITING: usize = 64;
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// A bound on concurrent work of one kind.
#[derive(Debug, Clone)]
pub(in crate::http) struct ConcurrencyLimit {
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    wait_timeout: Duration,
}

/// The permission to do one piece of work, returned on drop.
#[derive(Debug)]
pub(in crate::http) struct ConcurrencyPermit {
    _permit: OwnedSemaphorePermit,
}

impl ConcurrencyLimit {
    /// Bounds the running and the waiting pieces of work, and the time that each may wait.
    pub(in crate::http) fn new(
        max_running: usize,
        max_waiting: usize,
        wait_timeout: Duration,
    ) -> Self {
        let [running, waiting] =
            [max_running, max_waiting].map(|permits| Arc::new(Semaphore::new(permits)));
        Self { running, waiting, wait_timeout }
    }

    /// Bounds the requests that do one kind of work, with the default queue.
    pub(in crate::http) fn of_requests(max_running: usize) -> Self {
        Self::new(max_running, MAX_WAITING, WAIT_TIMEOUT)
    }

    /// Waits for a permit. Returns none if the queue is full or the wait times out.
    pub(in crate::http) async fn acquire(&self) -> Option<ConcurrencyPermit> {
        let running = || Arc::clone(&self.running);
        if let Ok(permit) = running().try_acquire_owned() {
            return Some(ConcurrencyPermit { _permit: permit });
        }
        let _waiting = self.waiting.try_acquire().ok()?;
        let permit = timeout(self.wait_timeout, running().acquire_owned()).await.ok()?.ok()?;
        Some(ConcurrencyPermit { _permit: permit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_refuses_at_once_and_a_wait_in_it_times_out() {
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
        assert!(limit.acquire().now_or_never().is_none(), "the queue has room");
        assert!(third.await.is_none(), "no permit was returned");
        assert_eq!(began.elapsed().as_secs(), 5);
        drop(second);
        assert!(limit.acquire().now_or_never().flatten().is_some());
    }
}
