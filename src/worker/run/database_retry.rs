//! Waiting for a database that is away: it restarts, fails over, or cannot be reached for a while.
//!
//! A run is kept as long as its lease: whoever could take it over is no better off.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::store::StoreError;
use crate::worker::run::driver::Driver;
use crate::worker::run::stop_cause::Halt;

/// What a statement may take before it counts as lost; the server ends it a little later.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// What is waited in all, for one step.
const GIVE_UP_AFTER: Duration = Duration::from_mins(1);
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// How often the same thing has been tried, and since when.
#[derive(Debug)]
pub(in crate::worker) struct Patience {
    since: Instant,
    failures: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self { since: Instant::now(), failures: 0 }
    }
}

impl Patience {
    /// Whether something was tried before, and nobody knows what came of it.
    pub(in crate::worker) fn is_tried(&self) -> bool {
        self.failures > 0
    }

    /// The next wait; none if there is no more to hope for.
    fn next(&mut self, halt: &Halt) -> Option<Duration> {
        let Halt::Store(error) = halt else { return None };
        if !error.may_pass() || self.since.elapsed() > GIVE_UP_AFTER {
            return None;
        }
        let longest = LONGEST_WAIT.min(FIRST_WAIT * 2_u32.saturating_pow(self.failures));
        self.failures += 1;
        Some(longest.mul_f64(0.5 + 0.5 * fastrand::f64()))
    }
}

impl Driver<'_> {
    /// Waits before the same is tried again, or says that it is not to be.
    pub(in crate::worker) async fn wait_out(
        &self,
        patience: &mut Patience,
        halt: Halt,
    ) -> Result<(), Halt> {
        let Some(wait) = patience.next(&halt) else { return Err(halt) };
        if patience.failures == 1 {
            tracing::warn!(run.id = %self.run_id(), cause = ?halt, "the database is waited for");
        }
        tokio::select! {
            biased;
            () = self.signals.lost.cancelled() => Err(Halt::LeaseLost),
            () = self.signals.halt.cancelled() => Err(halt),
            () = sleep(wait) => Ok(()),
        }
    }
}

/// Does something with the database, which must answer.
pub(in crate::worker) async fn in_time<T, E: From<StoreError>>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match timeout(ANSWER_WITHIN, work).await {
        Ok(done) => done,
        Err(_) => Err(StoreError::NoAnswer.into()),
    }
}
