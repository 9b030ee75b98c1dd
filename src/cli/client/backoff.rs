//! Retry delays for a service that is unavailable.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Total time for retries since the last response.
const MAX_TOTAL: Duration = Duration::from_mins(1);
/// The first delay.
const FIRST: Duration = Duration::from_millis(500);
/// The longest delay, also if the service asks for a longer one.
const LONGEST: Duration = Duration::from_secs(15);
/// Maximum random addition to a delay, so that many clients do not return at the same moment.
const JITTER_MS: u64 = 250;

/// The state of the retries of one request.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    until: Option<Instant>,
    tries: u32,
}

impl Backoff {
    /// Resets the delays after a response.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Waits for the requested delay, or for an exponentially growing one. Returns false without
    /// waiting if the total time would be exceeded.
    pub(super) async fn wait(&mut self, requested: Option<Duration>) -> bool {
        let now = Instant::now();
        let until = *self.until.get_or_insert(now + MAX_TOTAL);
        let growing = FIRST * 2u32.pow(self.tries.min(5));
        let jitter = Duration::from_millis(fastrand::u64(0..JITTER_MS));
        let delay = requested.unwrap_or(growing).min(LONGEST) + jitter;
        self.tries += 1;
        if now + delay > until {
            return false;
        }
        sleep(delay).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_grow_until_the_total_time_is_reached() {
        let (mut backoff, begun) = (Backoff::default(), Instant::now());
        let mut times = 0;
        while backoff.wait(None).await {
            times += 1;
        }
        assert_eq!(times, 7);
        assert!(begun.elapsed() <= MAX_TOTAL);
        backoff.reset();
        assert!(backoff.wait(None).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_requested_delay_is_used() {
        let (mut backoff, begun) = (Backoff::default(), Instant::now());
        assert!(backoff.wait(Some(Duration::from_secs(5))).await);
        let waited = begun.elapsed();
        assert!((5000..5300).contains(&waited.as_millis()), "{waited:?}");
    }
}
