//! Admission: the limit on queued runs, over all sessions and all processes of the database.
//!
//! Counting queued runs for every message would cost more than accepting the message. A process
//! counts them at most five times a second, and only while messages are queued; between two counts
//! it adds the runs that it accepts itself. It does not see what other processes accept between two
//! counts, so together they may exceed the limit by the messages of 200 ms.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::store::StoreError;
use crate::store::connections::Connections;
use crate::store::runs::count_queued;

/// How long a count is valid.
const FRESH: Duration = Duration::from_millis(200);

/// Admits messages while the number of queued runs is under the limit.
#[derive(Debug)]
pub(crate) struct Admission {
    max: i64,
    state: Mutex<State>,
    /// Held while runs are counted, so that concurrent messages share one count.
    counting: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    counted: i64,
    counted_at: Option<Instant>,
    /// Runs of this process that were queued since the count began.
    added: i64,
    /// Messages that may be queued, but have not been accepted yet.
    pending: i64,
}

impl Admission {
    /// Admits at most `max` queued runs.
    pub(crate) fn new(max: u32) -> Self {
        let counting = tokio::sync::Mutex::default();
        Self { max: max.into(), state: Mutex::default(), counting }
    }

    /// Reserves capacity for a run that may be queued; none if the limit is reached.
    pub(crate) async fn reserve(
        &self,
        pool: &Connections,
    ) -> Result<Option<QueuePermit<'_>>, StoreError> {
        let permit = self.free_permit();
        if permit.is_some() || self.is_fresh() {
            return Ok(permit);
        }
        self.count(pool).await?;
        Ok(self.free_permit())
    }

    fn free_permit(&self) -> Option<QueuePermit<'_>> {
        let mut state = self.state();
        if state.counted + state.added + state.pending >= self.max {
            return None;
        }
        state.pending += 1;
        Some(QueuePermit { admission: self, is_used: false })
    }

    /// Counts the queued runs, unless a valid count exists. Runs that are added during the count may
    /// be counted twice, until the next count.
    async fn count(&self, pool: &Connections) -> Result<(), StoreError> {
        let _counting = self.counting.lock().await;
        if self.is_fresh() {
            return Ok(());
        }
        let begun_at = Instant::now();
        let seen = self.state().added;
        let counted = pool.with(async |conn| count_queued(conn, self.max).await).await?;
        let mut state = self.state();
        state.counted = counted;
        state.counted_at = Some(begun_at);
        state.added -= seen;
        Ok(())
    }

    fn is_fresh(&self) -> bool {
        self.state().counted_at.is_some_and(|counted_at| counted_at.elapsed() < FRESH)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reserved capacity for one queued run; released when it is dropped.
#[derive(Debug)]
pub(crate) struct QueuePermit<'a> {
    admission: &'a Admission,
    is_used: bool,
}

impl QueuePermit<'_> {
    /// Records that the run was queued. The count is refreshed while messages are queued.
    pub(crate) async fn record_queued(mut self, pool: &Connections) {
        let admission = self.admission;
        self.is_used = true;
        drop(self);
        if !admission.is_fresh()
            && let Err(error) = admission.count(pool).await
        {
            tracing::warn!(%error, "queued runs could not be counted");
        }
    }
}

impl Drop for QueuePermit<'_> {
    fn drop(&mut self) {
        let mut state = self.admission.state();
        state.pending -= 1;
        state.added += i64::from(self.is_used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::database;

    impl Admission {
        fn set_counted_at(&self, counted_at: Option<Instant>) {
            self.state().counted_at = counted_at;
        }
    }

    #[tokio::test]
    async fn permits_are_granted_up_to_the_limit_and_again_once_nothing_is_queued() {
        let database = database().await;
        let pool = Connections::from(database.pool(1));
        let admission = Admission::new(2);
        let permit = async || admission.reserve(&pool).await.unwrap();
        // The test decides when the count expires.
        admission.set_counted_at(Some(Instant::now() + Duration::from_hours(1)));
        let (one, two) = (permit().await.unwrap(), permit().await.unwrap());
        assert!(permit().await.is_none(), "two permits are in use");
        drop(one);
        let three = permit().await.expect("a dropped permit is free again");
        two.record_queued(&pool).await;
        three.record_queued(&pool).await;
        assert!(permit().await.is_none(), "two runs are queued, by this process's figures");
        admission.set_counted_at(None);
        assert!(permit().await.is_some(), "a new count finds no queued run");
    }

    #[tokio::test]
    async fn an_unavailable_database_is_queried_only_at_the_limit() {
        let database = database().await;
        let pool = Connections::from(database.pool(1));
        pool.close().await;
        let admission = Admission::new(1);
        let permit = admission.reserve(&pool).await.unwrap().expect("nothing is queued");
        permit.record_queued(&pool).await;
        assert!(admission.reserve(&pool).await.is_err());
    }
}
