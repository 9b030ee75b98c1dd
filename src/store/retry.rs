//! Retries of database work while the database is unavailable: during a restart, a failover or a
//! network failure.

use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, sleep, timeout};

use super::StoreError;

/// Time limit of one try. The server cancels a statement that runs longer than 15 s.
pub const DATABASE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after the first try at which no further try begins.
const GIVE_UP_AFTER: Duration = Duration::from_mins(1);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// An error that may have been caused by the database.
pub trait DatabaseFailure: From<StoreError> {
    /// The store's error, if this is one.
    fn store_error(&self) -> Option<&StoreError>;
}

impl DatabaseFailure for StoreError {
    fn store_error(&self) -> Option<&StoreError> {
        Some(self)
    }
}

/// Runs `operation` until it succeeds, fails for a reason other than an unavailable database, one
/// minute has passed, or `stop` completes; then returns its last result.
///
/// Each try has [`DATABASE_TIMEOUT`]. The first failure is logged; the pauses between tries grow
/// from 50 ms to 500 ms, with jitter. `operation` receives `true` if an earlier try failed: that
/// try may have been committed although its result never arrived.
pub async fn retry_while_unavailable<T, E, F>(
    stop: impl Future<Output = ()>,
    mut operation: impl FnMut(bool) -> F,
) -> Result<T, E>
where
    E: DatabaseFailure,
    F: Future<Output = Result<T, E>>,
{
    tokio::pin!(stop);
    let mut retry = Retry::default();
    loop {
        match in_time(operation(retry.has_failed())).await {
            Ok(value) => return Ok(value),
            Err(error) => retry.pause(error, &mut stop).await?,
        }
    }
}

/// The state of a retry loop, for an operation that borrows exclusively what the loop needs again:
/// a closure for [`retry_while_unavailable`] cannot lend that to its future.
#[derive(Debug)]
pub struct Retry {
    since: Instant,
    failures: u32,
}

impl Default for Retry {
    fn default() -> Self {
        Self { since: Instant::now(), failures: 0 }
    }
}

impl Retry {
    /// Returns true if an earlier try failed. That try may have been committed.
    pub fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// Pauses before the next try. Returns the error if there is to be no further try: the cause is
    /// not an unavailable database, the time is over, or `stop` completes.
    pub async fn pause<E: DatabaseFailure>(
        &mut self,
        error: E,
        stop: impl Future<Output = ()>,
    ) -> Result<(), E> {
        let Some(cause) = error.store_error().filter(|cause| cause.may_pass()) else {
            return Err(error);
        };
        if self.since.elapsed() > GIVE_UP_AFTER {
            return Err(error);
        }
        if self.failures == 0 {
            tracing::warn!(error = %cause, "database unavailable, retrying");
        }
        let pause = LONGEST_PAUSE.min(FIRST_PAUSE * 2_u32.saturating_pow(self.failures));
        self.failures += 1;
        tokio::select! {
            biased;
            () = stop => Err(error),
            () = sleep(pause.mul_f64(0.5 + 0.5 * fastrand::f64())) => Ok(()),
        }
    }
}

/// Runs database work with a time limit of [`DATABASE_TIMEOUT`].
pub fn in_time<T, E: From<StoreError>>(
    work: impl Future<Output = Result<T, E>>,
) -> impl Future<Output = Result<T, E>> {
    within(DATABASE_TIMEOUT, work)
}

/// Runs database work with a time limit. Fails with [`StoreError::NoAnswer`] after the limit.
// Not an `async fn`, which would hold `work` twice.
pub fn within<T, E: From<StoreError>>(
    limit: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> impl Future<Output = Result<T, E>> {
    timeout(limit, work).map(|done| done.unwrap_or_else(|_| Err(StoreError::NoAnswer.into())))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};

    use super::*;

    fn unavailable() -> StoreError {
        sqlx::Error::PoolTimedOut.into()
    }

    #[tokio::test(start_paused = true)]
    async fn an_unavailable_database_is_retried_and_later_tries_know_it() {
        let tries = Cell::new(0);
        let answer = retry_while_unavailable(pending(), |is_retry| {
            tries.set(tries.get() + 1);
            ready(if tries.get() < 4 { Err(unavailable()) } else { Ok(is_retry) })
        });
        assert!(answer.await.unwrap());
        assert_eq!(tries.get(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_that_stays_unavailable_is_given_up_after_a_minute() {
        let begun = Instant::now();
        let answer: Result<(), _> =
            retry_while_unavailable(pending(), |_| ready(Err(unavailable()))).await;
        assert!(matches!(answer, Err(StoreError::Database(_))));
        let took = begun.elapsed();
        assert!(took > GIVE_UP_AFTER && took < GIVE_UP_AFTER + LONGEST_PAUSE * 2, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_try_without_an_answer_ends_in_time_and_is_repeated() {
        let answer = retry_while_unavailable(pending(), async |is_retry| {
            if !is_retry {
                pending::<()>().await;
            }
            Ok::<_, StoreError>(is_retry)
        });
        assert!(answer.await.unwrap());
    }

    #[tokio::test]
    async fn an_error_of_the_statement_is_not_retried() {
        let tries = Cell::new(0);
        let answer: Result<(), _> = retry_while_unavailable(pending(), |_| {
            tries.set(tries.get() + 1);
            ready(Err(StoreError::from(sqlx::Error::RowNotFound)))
        })
        .await;
        assert!(answer.is_err());
        assert_eq!(tries.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_that_is_stopped_returns_the_last_error() {
        let answer: Result<(), _> =
            retry_while_unavailable(sleep(Duration::from_secs(5)), |_| ready(Err(unavailable())))
                .await;
        assert!(matches!(answer, Err(StoreError::Database(sqlx::Error::PoolTimedOut))));
    }
}
