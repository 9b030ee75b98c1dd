//! The bound on runs that wait, over all sessions and all processes of the database.
//!
//! To count them for every message would cost more than to accept it. So they are counted a few
//! times a second at most, and only while messages have to wait; in between a process adds what it
//! accepts itself. What others accept between two counts is not seen: many processes may exceed
//! the bound together, by a fifth of a second's messages.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::store::StoreError;
use crate::store::connections::Connections;
use crate::store::runs::count_queued;

/// How long a count is good for.
const FRESH: Duration = Duration::from_millis(200);

/// Lets messages in as long as there is room for their runs to wait.
#[derive(Debug)]
pub(in crate::http) struct Admission {
    max: i64,
    state: Mutex<State>,
    /// Held while runs are counted, so that everybody who needs the count waits for the same one.
    counting: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    counted: i64,
    counted_at: Option<Instant>,
    /// Runs that wait since the count was begun.
    added: i64,
    /// Messages of which it is not known yet whether their runs wait.
    open: i64,
}

impl Admission {
    pub(in crate::http) fn new(max: u32) -> Self {
        let counting = tokio::sync::Mutex::default();
        Self { max: max.into(), state: Mutex::default(), counting }
    }

    /// Keeps a place for a run that may have to wait; none if there is no room for it.
    pub(in crate::http) async fn place(
        &self,
        pool: &Connections,
    ) -> Result<Option<Place<'_>>, StoreError> {
        let place = self.free_place();
        if place.is_some() || self.is_fresh() {
            return Ok(place);
        }
        self.count(pool).await?;
        Ok(self.free_place())
    }

    fn free_place(&self) -> Option<Place<'_>> {
        let mut state = self.state();
        if state.counted + state.added + state.open >= self.max {
            return None;
        }
        state.open += 1;
        Some(Place { admission: self, is_taken: false })
    }

    /// Counts unless somebody has done it a moment ago. What is added meanwhile may be counted
    /// twice, until the next time.
    async fn count(&self, pool: &Connections) -> Result<(), StoreError> {
        let _counting = self.counting.lock().await;
        if self.is_fresh() {
            return Ok(());
        }
        let begun_at = Instant::now();
        let seen = self.state().added;
        let mut conn = pool.acquire().await?;
        let counted = count_queued(&mut conn, self.max).await?;
        conn.give_back();
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

/// Room for one run to wait, given back when it is dropped.
#[derive(Debug)]
pub(in crate::http) struct Place<'a> {
    admission: &'a Admission,
    is_taken: bool,
}

impl Place<'_> {
    /// The run waits. While messages have to wait, the count is kept fresh.
    pub(in crate::http) async fn take(mut self, pool: &Connections) {
        let admission = self.admission;
        self.is_taken = true;
        drop(self);
        if !admission.is_fresh()
            && let Err(error) = admission.count(pool).await
        {
            tracing::warn!(%error, "the runs that wait cannot be counted");
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.admission.state();
        state.open -= 1;
        state.added += i64::from(self.is_taken);
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
    async fn there_is_room_up_to_the_bound_and_again_when_nothing_waits() {
        let database = database().await;
        let pool = Connections::from(database.pool(1));
        let admission = Admission::new(2);
        let place = async || admission.place(&pool).await.unwrap();
        // The count is as fresh as the test wants it.
        admission.set_counted_at(Some(Instant::now() + Duration::from_hours(1)));
        let (one, two) = (place().await.unwrap(), place().await.unwrap());
        assert!(place().await.is_none(), "two are open");
        drop(one);
        let three = place().await.expect("what is given back is free");
        two.take(&pool).await;
        three.take(&pool).await;
        assert!(place().await.is_none(), "two wait, as far as is known");
        admission.set_counted_at(None);
        assert!(place().await.is_some(), "in truth nothing waits");
    }

    #[tokio::test]
    async fn a_database_that_is_away_is_asked_only_when_there_seems_to_be_no_room() {
        let database = database().await;
        let pool = Connections::from(database.pool(1));
        pool.close().await;
        let admission = Admission::new(1);
        let place = admission.place(&pool).await.unwrap().expect("nothing waits");
        place.take(&pool).await;
        assert!(admission.place(&pool).await.is_err());
    }
}
