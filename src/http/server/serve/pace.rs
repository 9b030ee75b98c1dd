//! Until when a connection may go on without a request in hand.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::timeouts::{LEAVES_WITHIN, Timeouts};

/// The clock of one connection.
#[derive(Debug)]
pub(super) struct Pace {
    state: watch::Sender<State>,
    timeouts: Timeouts,
}

#[derive(Debug, Clone, Copy)]
struct State {
    /// Requests whose response has not been sent.
    in_hand: usize,
    /// When the connection is late, if none is in hand by then.
    until: Instant,
    /// Whether the next byte begins a head.
    is_idle: bool,
    /// Whether bytes may come that belong to no request.
    is_multiplexed: bool,
    /// Whether the client was told to leave.
    is_leaving: bool,
}

/// A request in hand, until this is dropped.
#[derive(Debug)]
pub(super) struct InHand(Arc<Pace>);

impl Pace {
    /// The clock of a connection that has just come: it owes a head.
    pub(super) fn new(timeouts: Timeouts) -> Arc<Self> {
        let state = State {
            in_hand: 0,
            until: Instant::now() + timeouts.head,
            is_idle: false,
            is_multiplexed: false,
            is_leaving: false,
        };
        Arc::new(Self { state: watch::Sender::new(state), timeouts })
    }

    /// Bytes have come. The first of a head set its deadline, which further ones do not move.
    pub(super) fn heard(&self) {
        self.state.send_if_modified(|state| {
            let begins = state.is_idle && !state.is_multiplexed;
            if begins {
                state.is_idle = false;
                state.set(self.timeouts.head);
            }
            begins
        });
    }

    /// A request has come in full but for its body.
    pub(super) fn begin(self: &Arc<Self>, is_multiplexed: bool) -> InHand {
        self.state.send_modify(|state| {
            state.in_hand += 1;
            state.is_idle = false;
            state.is_multiplexed = is_multiplexed;
        });
        InHand(Arc::clone(self))
    }

    /// The client was told to leave: it may end what it has begun, and nothing else.
    pub(super) fn leave(&self) {
        self.state.send_modify(|state| {
            state.is_leaving = true;
            state.set(LEAVES_WITHIN);
        });
    }

    /// Returns when the connection is late.
    pub(super) async fn late(&self) {
        let mut state = self.state.subscribe();
        loop {
            let State { in_hand, until, .. } = *state.borrow_and_update();
            let is_over = async {
                if in_hand > 0 {
                    std::future::pending::<()>().await;
                }
                sleep_until(until).await;
            };
            tokio::select! {
                () = is_over => return,
                // The sender is ours, and outlives this.
                _ = state.changed() => {}
            }
        }
    }
}

impl State {
    fn set(&mut self, patience: Duration) {
        let patience = if self.is_leaving { LEAVES_WITHIN } else { patience };
        self.until = Instant::now() + patience;
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        let Self(pace) = self;
        pace.state.send_modify(|state| {
            state.in_hand -= 1;
            if state.in_hand == 0 {
                state.is_idle = true;
                state.set(pace.timeouts.idle);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const TIMEOUTS: Timeouts =
        Timeouts { head: Duration::from_secs(10), idle: Duration::from_secs(75), ..ZERO };
    const ZERO: Timeouts = Timeouts {
        head: Duration::ZERO,
        body: Duration::ZERO,
        idle: Duration::ZERO,
        write: Duration::ZERO,
    };

    /// How long it takes until the connection is late, if nothing more happens.
    async fn late_after(pace: &Pace) -> Duration {
        let begun = Instant::now();
        pace.late().await;
        begun.elapsed()
    }

    /// The timer counts whole milliseconds, rounded up.
    fn assert_about(time: Duration, seconds: u64) {
        let expected = Duration::from_secs(seconds);
        assert!(time >= expected && time < expected + Duration::from_millis(5), "{time:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_do_not_move_the_deadline_of_a_head() {
        let pace = Pace::new(TIMEOUTS);
        advance(9 * SECOND).await;
        pace.heard();
        assert_about(late_after(&pace).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_byte_after_a_request_begins_a_head() {
        let pace = Pace::new(TIMEOUTS);
        drop(pace.begin(false));
        advance(70 * SECOND).await;
        pace.heard();
        advance(9 * SECOND).await;
        pace.heard();
        assert_about(late_after(&pace).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_in_hand_has_all_the_time_it_takes() {
        let pace = Pace::new(TIMEOUTS);
        let (request, other) = (pace.begin(true), pace.begin(true));
        advance(1000 * SECOND).await;
        drop(request);
        let watched = late_after(&pace);
        tokio::pin!(watched);
        tokio::select! {
            biased;
            _ = &mut watched => panic!("a request was in hand"),
            () = tokio::time::sleep(1000 * SECOND) => drop(other),
        }
        assert_about(watched.await, 1075);
    }

    #[tokio::test(start_paused = true)]
    async fn signs_of_life_are_no_request() {
        let pace = Pace::new(TIMEOUTS);
        drop(pace.begin(true));
        advance(70 * SECOND).await;
        pace.heard();
        assert_about(late_after(&pace).await, 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_was_told_to_leave_ends_what_it_has_begun() {
        let pace = Pace::new(TIMEOUTS);
        let request = pace.begin(false);
        pace.leave();
        advance(100 * SECOND).await;
        drop(request);
        pace.heard();
        assert_about(late_after(&pace).await, 1);
    }
}
