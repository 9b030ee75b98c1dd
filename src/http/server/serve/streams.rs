//! The requests of one HTTP/2 connection. Each client must take its response; the socket does not
//! tell, because it is read for the sake of all of them.

use std::time::Duration;

use hyper::rt::Executor;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::timeouts::LEAVES_WITHIN;

tokio::task_local! {
    static TAKEN: Taken;
}

/// Runs requests, each until it is answered or its client takes nothing of the answer.
#[derive(Debug, Clone)]
pub(super) struct Streams {
    /// How long the client may take nothing.
    pub(super) patience: Duration,
    /// Fires when there is no time for that.
    pub(super) draining: CancellationToken,
}

impl<F: Future + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let Self { patience, draining } = self.clone();
        let taken = Taken(watch::Sender::new(None));
        let watched = taken.clone();
        TaskTracker::new().spawn(TAKEN.scope(taken, async move {
            tokio::select! {
                _ = stream => {}
                // The stream is reset when it is dropped.
                () = watched.stalls(patience, draining) => {}
            }
        }));
    }
}

/// Since when a client has taken nothing of what it was given, on behalf of the task it is for.
#[derive(Debug, Clone)]
pub(super) struct Taken(watch::Sender<Option<Instant>>);

impl Taken {
    /// That of the request whose task this is; none for HTTP/1, which has a socket for itself.
    pub(super) fn of_task() -> Option<Self> {
        TAKEN.try_with(Self::clone).ok()
    }

    /// The client has taken all that it was given.
    pub(super) fn all(&self) {
        self.0.send_if_modified(|since| since.take().is_some());
    }

    /// The client was given something.
    pub(super) fn not_yet(&self) {
        self.0.send_replace(Some(Instant::now()));
    }

    async fn stalls(&self, patience: Duration, draining: CancellationToken) {
        let mut since = self.0.subscribe();
        loop {
            let begun = *since.borrow_and_update();
            let is_over = async {
                let Some(begun) = begun else { std::future::pending().await };
                tokio::select! {
                    () = sleep_until(begun + patience) => {}
                    () = draining.cancelled() => {
                        sleep_until(begun + patience.min(LEAVES_WITHIN)).await;
                    }
                }
            };
            tokio::select! {
                () = is_over => return,
                // The sender is ours, and outlives this.
                _ = since.changed() => {}
            }
        }
    }
}
