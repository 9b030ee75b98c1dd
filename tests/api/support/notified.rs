//! Proof that a process is notified of a change, and does not find it when it polls.

use std::time::Duration;

/// Half of the interval in which a worker renews its leases and reads requests to cancel its runs.
pub(crate) const HALF_OF_RENEWAL_INTERVAL: Duration = Duration::from_millis(1500);
/// Half of the interval in which a worker checks for runs that it may claim.
pub(crate) const HALF_OF_SWEEP_INTERVAL: Duration = Duration::from_millis(500);

/// The number of rounds of which one has to be short.
const ROUNDS: usize = 10;

/// Repeats a round, which gets its number, until it takes less than half of the interval of a poll.
/// After a round that a poll ends, the next round waits for a whole interval, so only the first round
/// proves nothing. Load makes some rounds longer; without the notification all of them are.
pub(crate) async fn assert_notified(half: Duration, round: impl AsyncFn(usize) -> Duration) {
    round(0).await;
    let mut took = Vec::new();
    for number in 1..=ROUNDS {
        took.push(round(number).await);
        if took.last().is_some_and(|last| *last < half) {
            return;
        }
    }
    panic!("no notification: {took:?}");
}
