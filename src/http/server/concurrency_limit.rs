//! ConcurrencyLimit at work that only so many may do at a time. Neither is the line before it endless.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// ConcurrencyLimit at one kind of work.
#[derive(Debug, Clone)]
pub(in crate::http) struct ConcurrencyLimit {
    at_work: Arc<Semaphore>,
    in_line: Arc<Semaphore>,
    patience: Duration,
}

/// Somebody's turn, until this is dropped.
#[derive(Debug)]
pub(in crate::http) struct ConcurrencyPermit {
    _permit: OwnedSemaphorePermit,
}

impl ConcurrencyLimit {
    /// So many at a time, and so many who wait at most so long.
    pub(in crate::http) fn new(at_a_time: usize, in_line: usize, patience: Duration) -> Self {
        let [at_work, in_line] = [at_a_time, in_line].map(|many| Arc::new(Semaphore::new(many)));
        Self { at_work, in_line, patience }
    }

    /// A turn; none if too many wait already, or it takes too long.
    pub(in crate::http) async fn take(&self) -> Option<ConcurrencyPermit> {
        let at_work = || Arc::clone(&self.at_work);
        if let Ok(permit) = at_work().try_acquire_owned() {
            return Some(ConcurrencyPermit { _permit: permit });
        }
        let _place = self.in_line.try_acquire().ok()?;
        let permit = timeout(self.patience, at_work().acquire_owned()).await.ok()?.ok()?;
        Some(ConcurrencyPermit { _permit: permit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn who_finds_the_line_full_is_told_at_once_and_who_waits_in_vain_in_time() {
        let turns = ConcurrencyLimit::new(1, 2, Duration::from_secs(5));
        let first = turns.take().now_or_never().flatten().unwrap();
        let began = Instant::now();
        let (mut second, third) = (Box::pin(turns.take()), Box::pin(turns.take()));
        assert!((&mut second).now_or_never().is_none());
        let mut third = third;
        assert!((&mut third).now_or_never().is_none());
        assert!(turns.take().now_or_never().unwrap().is_none(), "the line is full");

        drop(first);
        let second = second.await.unwrap();
        assert!(turns.take().now_or_never().is_none(), "there is a place in the line");
        assert!(third.await.is_none(), "nobody has gone");
        assert_eq!(began.elapsed().as_secs(), 5);
        drop(second);
        assert!(turns.take().now_or_never().flatten().is_some());
    }
}
