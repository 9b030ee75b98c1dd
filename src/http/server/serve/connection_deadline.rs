//! The idle and head timeouts of a connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::timeouts::{SHUTDOWN_TIMEOUT, Timeouts};

/// The deadline of one connection.
#[derive(Debug)]
pub(super) struct ConnectionDeadline {
    state: watch::Sender<State>,
    timeouts: Timeouts,
}

#[derive(Debug, Clone, Copy)]
struct State {
    /// Active requests: their response is not completely sent.
    active: usize,
    /// The deadline while no request is active.
    until: Instant,
    /// The next byte begins the head of a request.
    is_idle: bool,
    /// HTTP/2: bytes may belong to no request.
    is_multiplexed: bool,
    /// The connection is shutting down.
    is_shutting_down: bool,
}

/// An active request, until this is dropped.
#[derive(Debug)]
pub(super) struct ActiveRequest(Arc<ConnectionDeadline>);

impl ConnectionDeadline {
    /// The deadline of a new connection, for the head of its first request.
    pub(super) fn new(timeouts: Timeouts) -> Arc<Self> {
        let state = State {
            active: 0,
            until: Instant::now() + timeouts.head,
            is_idle: false,
            is_multiplexed: false,
            is_shutting_down: false,
        };
        Arc::new(Self { state: watch::Sender::new(state), timeouts })
    }

    /// Records received bytes. The first byte of a head sets its deadline; further bytes do not move it.
    pub(super) fn received(&self) {
        self.state.send_if_modified(|state| {
            let begins = state.is_idle && !state.is_multiplexed;
            if begins {
                state.is_idle = false;
                state.set(self.timeouts.head);
            }
            begins
        });
    }

    /// Begins a request whose head has been received.
    pub(super) fn begin(self: &Arc<Self>, is_multiplexed: bool) -> ActiveRequest {
        self.state.send_modify(|state| {
            state.active += 1;
            state.is_idle = false;
            state.is_multiplexed = is_multiplexed;
        });
        ActiveRequest(Arc::clone(self))
    }

    /// Begins the shutdown: active requests may complete, and no other may begin.
    pub(super) fn begin_shutdown(&self) {
        self.state.send_modify(|state| {
            state.is_shutting_down = true;
            state.set(SHUTDOWN_TIMEOUT);
        });
    }

    /// Returns when the deadline has passed.
    pub(super) async fn expired(&self) {
        let mut state = self.state.subscribe();
        loop {
            let State { active, until, .. } = *state.borrow_and_update();
            let is_over = async {
                if active > 0 {
                    std::future::pending::<()>().await;
                }
                sleep_until(until).await;
            };
            tokio::select! {
                () = is_over => return,
                // The sender is a field of this struct, so it cannot be closed here.
                _ = state.changed() => {}
            }
        }
    }
}

impl State {
    fn set(&mut self, timeout: Duration) {
        let timeout = if self.is_shutting_down { SHUTDOWN_TIMEOUT } else { timeout };
        self.until = Instant::now() + timeout;
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let Self(deadline) = self;
        deadline.state.send_modify(|state| {
            state.active -= 1;
            if state.active == 0 {
                state.is_idle = true;
                state.set(deadline.timeouts.idle);
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

    /// The time until the deadline passes, if nothing more happens.
    async fn expires_after(deadline: &ConnectionDeadline) -> Duration {
        let begun = Instant::now();
        deadline.expired().await;
        begun.elapsed()
    }

    /// The timer counts whole milliseconds, rounded up.
    fn assert_about(time: Duration, seconds: u64) {
        let expected = Duration::from_secs(seconds);
        assert!(time >= expected && time < expected + Duration::from_millis(5), "{time:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_do_not_move_the_deadline_of_a_head() {
        let deadline = ConnectionDeadline::new(TIMEOUTS);
        advance(9 * SECOND).await;
        deadline.received();
        assert_about(expires_after(&deadline).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_byte_after_a_request_begins_a_head() {
        let deadline = ConnectionDeadline::new(TIMEOUTS);
        drop(deadline.begin(false));
        advance(70 * SECOND).await;
        deadline.received();
        advance(9 * SECOND).await;
        deadline.received();
        assert_about(expires_after(&deadline).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_active_request_has_no_deadline() {
        let deadline = ConnectionDeadline::new(TIMEOUTS);
        let (request, other) = (deadline.begin(true), deadline.begin(true));
        advance(1000 * SECOND).await;
        drop(request);
        let watched = expires_after(&deadline);
        tokio::pin!(watched);
        tokio::select! {
            biased;
            _ = &mut watched => panic!("a request was active"),
            () = tokio::time::sleep(1000 * SECOND) => drop(other),
        }
        assert_about(watched.await, 1075);
    }

    #[tokio::test(start_paused = true)]
    async fn http2_frames_without_a_request_do_not_move_the_deadline() {
        let deadline = ConnectionDeadline::new(TIMEOUTS);
        drop(deadline.begin(true));
        advance(70 * SECOND).await;
        deadline.received();
        assert_about(expires_after(&deadline).await, 5);
    }

    #[tokio::test(start_paused = true)]
    async fn during_shutdown_only_active_requests_complete() {
        let deadline = ConnectionDeadline::new(TIMEOUTS);
        let request = deadline.begin(false);
        deadline.begin_shutdown();
        advance(100 * SECOND).await;
        drop(request);
        deadline.received();
        assert_about(expires_after(&deadline).await, 1);
    }
}
