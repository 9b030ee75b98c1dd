//! A reader of a session's events who is cut off again and again, and must miss nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use sse_stream::SseByteStream;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::arena::Arena;
use crate::planted::refusal;

/// A stream that is silent for so long is left for another.
const SILENCE: Duration = Duration::from_secs(3);
/// What is not told is looked for every 15 s, and silence is followed by a new stream.
const CATCH_UP: Duration = Duration::from_secs(30);

/// A reader at work.
#[derive(Debug)]
pub(crate) struct Reader {
    task: JoinHandle<()>,
    at_rest: CancellationToken,
}

impl Reader {
    pub(crate) fn start(arena: &Arc<Arena>, session: &str) -> Self {
        let at_rest = CancellationToken::new();
        let follow =
            Follow { arena: Arc::clone(arena), session: session.to_owned(), last: 0, seat: 0 };
        let task = TaskTracker::new().spawn(follow.run(at_rest.clone()));
        Self { task, at_rest }
    }

    /// Nothing more will happen: the reader must come to the end of what is there.
    pub(crate) async fn finish(self) {
        self.at_rest.cancel();
        let _ = self.task.await;
    }
}

struct Follow {
    arena: Arc<Arena>,
    session: String,
    last: i64,
    seat: usize,
}

impl Follow {
    async fn run(mut self, at_rest: CancellationToken) {
        let mut deadline = None;
        loop {
            if at_rest.is_cancelled() {
                if self.end().await == Some(self.last) {
                    break;
                }
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + CATCH_UP);
                if Instant::now() > deadline {
                    let what =
                        format!("a reader of {} stayed at event {}", self.session, self.last);
                    self.arena.red(&what);
                    break;
                }
            }
            if !self.read().await {
                break;
            }
            self.seat = 1 - self.seat;
            sleep(Duration::from_millis(50)).await;
        }
        self.arena.tally.events_followed.add(usize::try_from(self.last).unwrap_or(0));
    }

    /// Reads one stream until it breaks; false if it told what it must not.
    async fn read(&mut self) -> bool {
        let Some(address) = self.arena.address(self.seat) else { return true };
        let path = format!("{address}/v1/sessions/{}/events/stream", self.session);
        let request = self.arena.http.get(path).header("last-event-id", self.last.to_string());
        let Ok(Ok(response)) = timeout(SILENCE, request.send()).await else { return true };
        if !response.status().is_success() {
            refusal(response).await;
            return true;
        }
        let mut events = SseByteStream::new(response.bytes_stream());
        while let Ok(Some(Ok(event))) = timeout(SILENCE, events.next()).await {
            let Some(id) = event.id.and_then(|id| id.parse::<i64>().ok()) else { continue };
            if id != self.last + 1 {
                let what = format!("a reader was told event {id} after {}", self.last);
                self.arena.red(&what);
                return false;
            }
            self.last = id;
        }
        true
    }

    async fn end(&self) -> Option<i64> {
        let id = self.session.trim_start_matches("ses_");
        let last = sqlx::query_scalar("SELECT last_seq FROM sessions WHERE id = $1::uuid");
        last.bind(id).fetch_one(&self.arena.pool).await.ok()
    }
}
