//! A reader of the events of a session. It reconnects after each interruption and must not miss
//! any event.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use sse_stream::SseByteStream;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::planted::keep_refusal;
use crate::testbed::Testbed;

/// After this time without an event, the reader opens a new stream.
const SILENCE: Duration = Duration::from_secs(3);
/// The limit for receiving all events at the end. The service polls every 15 s for events whose
/// notification was lost.
const CATCH_UP: Duration = Duration::from_secs(30);

/// A running reader.
#[derive(Debug)]
pub(crate) struct Reader {
    task: JoinHandle<()>,
    is_settled: CancellationToken,
}

impl Reader {
    pub(crate) fn start(testbed: &Arc<Testbed>, session: &str) -> Self {
        let is_settled = CancellationToken::new();
        let follow =
            Follow { testbed: Arc::clone(testbed), session: session.to_owned(), last: 0, index: 0 };
        let task = TaskTracker::new().spawn(follow.run(is_settled.clone()));
        Self { task, is_settled }
    }

    /// Waits until the reader has received all events. All runs must have settled.
    pub(crate) async fn finish(self) {
        self.is_settled.cancel();
        let _ = self.task.await;
    }
}

struct Follow {
    testbed: Arc<Testbed>,
    session: String,
    last: i64,
    index: usize,
}

impl Follow {
    async fn run(mut self, is_settled: CancellationToken) {
        let mut deadline = None;
        loop {
            if is_settled.is_cancelled() {
                if self.last_event().await == Some(self.last) {
                    break;
                }
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + CATCH_UP);
                if Instant::now() > deadline {
                    let message = format!(
                        "a reader of {} received no event after {}",
                        self.session, self.last
                    );
                    self.testbed.violation(&message);
                    break;
                }
            }
            if !self.read().await {
                break;
            }
            self.index = 1 - self.index;
            sleep(Duration::from_millis(50)).await;
        }
        self.testbed.tally.events_followed.add(usize::try_from(self.last).unwrap_or(0));
    }

    /// Reads one stream until it breaks. Returns false after an event with a wrong number.
    async fn read(&mut self) -> bool {
        let Some(address) = self.testbed.address(self.index) else { return true };
        let path = format!("{address}/v1/sessions/{}/events/stream", self.session);
        let request = self.testbed.http.get(path).header("last-event-id", self.last.to_string());
        let Ok(Ok(response)) = timeout(SILENCE, request.send()).await else { return true };
        if !response.status().is_success() {
            keep_refusal(response).await;
            return true;
        }
        let mut events = SseByteStream::new(response.bytes_stream());
        while let Ok(Some(Ok(event))) = timeout(SILENCE, events.next()).await {
            let Some(id) = event.id.and_then(|id| id.parse::<i64>().ok()) else { continue };
            if id != self.last + 1 {
                let message = format!("a reader received event {id} after {}", self.last);
                self.testbed.violation(&message);
                return false;
            }
            self.last = id;
        }
        true
    }

    async fn last_event(&self) -> Option<i64> {
        let id = self.session.trim_start_matches("ses_");
        let last = sqlx::query_scalar("SELECT last_seq FROM sessions WHERE id = $1::uuid");
        last.bind(id).fetch_one(&self.testbed.pool).await.ok()
    }
}
