//! Write timeouts of the streams of one HTTP/2 connection. The socket cannot detect a stalled
//! stream, because the client may go on reading other streams.

use std::time::Duration;

use hyper::rt::Executor;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::timeouts::SHUTDOWN_TIMEOUT;

tokio::task_local! {
    static PROGRESS: Progress;
}

/// Runs the tasks of requests, each until its response is sent or its stream stalls.
#[derive(Debug, Clone)]
pub(super) struct Streams {
    /// The maximum time without progress of a response.
    pub(super) timeout: Duration,
    /// Fires when the service begins to stop, which shortens that time.
    pub(super) draining: CancellationToken,
}

impl<F: Future + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let Self { timeout, draining } = self.clone();
        let progress = Progress(watch::Sender::new(None));
        let watched = progress.clone();
        TaskTracker::new().spawn(PROGRESS.scope(progress, async move {
            tokio::select! {
                _ = stream => {}
                // Dropping the stream resets it.
                () = watched.stalls(timeout, draining) => {}
            }
        }));
    }
}

/// The progress of the response of one request: the time since which a piece of it is unsent.
#[derive(Debug, Clone)]
pub(super) struct Progress(watch::Sender<Option<Instant>>);

impl Progress {
    /// The progress of the current task; none for HTTP/1, where the socket has the timeout.
    pub(super) fn of_task() -> Option<Self> {
        PROGRESS.try_with(Self::clone).ok()
    }

    /// Records that the client has read `all_read` pieces.
    pub(super) fn all_read(&self) {
        self.0.send_if_modified(|since| since.take().is_some());
    }

    /// Records a piece that the client has not read yet.
    pub(super) fn piece_sent(&self) {
        self.0.send_replace(Some(Instant::now()));
    }

    async fn stalls(&self, timeout: Duration, draining: CancellationToken) {
        let mut since = self.0.subscribe();
        loop {
            let begun = *since.borrow_and_update();
            let is_over = async {
                let Some(begun) = begun else { std::future::pending().await };
                tokio::select! {
                    () = sleep_until(begun + timeout) => {}
                    () = draining.cancelled() => {
                        sleep_until(begun + timeout.min(SHUTDOWN_TIMEOUT)).await;
                    }
                }
            };
            tokio::select! {
                () = is_over => return,
                // The sender is a field of this struct, so it cannot be closed here.
                _ = since.changed() => {}
            }
        }
    }
}
