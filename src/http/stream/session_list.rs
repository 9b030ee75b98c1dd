//! The stream of the session list.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

use crate::http::resources::{SessionListEvent, SessionResource};
use crate::http::server::stream_permits::StreamPermit;
use crate::http::state::Api;
use crate::http::stream::format::StreamFormat;
use crate::metrics::GaugeGuard;
use crate::service::Error;
use crate::service::change_feed::{FeedBatch, FeedItem, FeedReader, FeedState};

/// The pause after a failed read, and the maximum number of failures in a row.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
const MAX_FAILURES: u32 = 30;
/// The time to write the last bytes before an abort, which discards unwritten ones.
const ABORT_DELAY: Duration = Duration::from_millis(50);

/// The sessions that a stream shows, and their form.
#[derive(Debug)]
pub(in crate::http) struct ListView {
    /// Only sessions of this user.
    pub(in crate::http) user: Option<String>,
    /// Only sessions of this agent.
    pub(in crate::http) agent: Option<String>,
    /// True for the form that browsers receive.
    pub(in crate::http) is_browser: bool,
}

impl ListView {
    fn shows(&self, item: &FeedItem) -> bool {
        let is_of = |wanted: &Option<String>, actual: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| actual == Some(wanted))
        };
        is_of(&self.user, item.user()) && is_of(&self.agent, item.agent())
    }
}

/// The state of one stream.
pub(in crate::http) struct ListStream {
    api: Arc<Api>,
    reader: FeedReader,
    view: ListView,
    format: StreamFormat,
    keep_alive: Interval,
    has_begun: bool,
    failures: u32,
    is_aborting: bool,
    _permit: StreamPermit,
    _open: GaugeGuard,
}

impl ListStream {
    pub(in crate::http) fn new(
        api: &Arc<Api>,
        reader: FeedReader,
        view: ListView,
        format: StreamFormat,
        permit: StreamPermit,
    ) -> Self {
        let mut keep_alive = interval(api.options.keep_alive_every);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        keep_alive.reset();
        Self {
            _open: api.metrics.open_stream(),
            api: Arc::clone(api),
            reader,
            view,
            format,
            keep_alive,
            has_begun: false,
            failures: 0,
            is_aborting: false,
            _permit: permit,
        }
    }

    /// The next bytes. An error aborts the connection, and the client reconnects.
    pub(in crate::http) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if !std::mem::replace(&mut self.has_begun, true) {
            return Some(Ok(self.first()));
        }
        let draining = self.api.draining.clone();
        loop {
            if draining.is_cancelled() {
                return Some(self.abort().await);
            }
            let batch = tokio::select! {
                biased;
                () = draining.cancelled() => continue,
                batch = self.reader.next(&self.api.service) => batch,
                _ = self.keep_alive.tick() => return Some(Ok(self.format.keep_alive_bytes())),
            };
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => return Some(self.wait_for_database(error).await),
            };
            self.failures = 0;
            let bytes = self.encode(&batch);
            if !bytes.is_empty() {
                self.keep_alive.reset();
                return Some(Ok(bytes.into()));
            }
        }
    }

    /// The first bytes. They have the position at which the stream begins, so that a client that is
    /// disconnected before the first event misses nothing.
    fn first(&self) -> Bytes {
        let first = self.format.first_bytes(true);
        if self.format != StreamFormat::EventStream {
            return first;
        }
        let position = format!("id: {}\n\n", self.reader.position);
        [first, position.into()].concat().into()
    }

    fn encode(&self, batch: &FeedBatch) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut shown = batch.items.iter().filter(|item| self.view.shows(item)).peekable();
        while let Some(item) = shown.next() {
            let is_last = batch.is_last && shown.peek().is_none();
            let position = is_last.then(|| batch.to.to_string());
            let text = self.text(item);
            let frame = match position {
                Some(at) => {
                    let rest = text.strip_prefix('{').unwrap_or(text);
                    format!(
                        "id: {at}\nevent: session.changed\ndata: {{\"position\":\"{at}\",{rest}\n\n"
                    )
                }
                None => format!("event: session.changed\ndata: {text}\n\n"),
            };
            bytes.extend_from_slice(&self.format.frame(frame.into()));
        }
        bytes
    }

    /// The event of an item without its position.
    fn text<'a>(&self, item: &'a FeedItem) -> &'a str {
        let [listed, browser] = &item.encoded;
        let encoded = if self.view.is_browser { browser } else { listed };
        encoded.get_or_init(|| {
            let operator = &self.api.service.permissions;
            let session = match &item.state {
                FeedState::Deleted { .. } => None,
                FeedState::Session(session) => {
                    let session = session.as_ref().clone();
                    Some(if self.view.is_browser {
                        SessionResource::for_browser(session, operator)
                    } else {
                        SessionResource::in_list(session, operator)
                    })
                }
            };
            let event = SessionListEvent {
                r#type: "session.changed",
                session_id: item.id,
                changes: item.changes.clone(),
                session,
                position: None,
            };
            serde_json::to_string(&event).unwrap_or_default()
        })
    }

    /// Waits while the database is unavailable, and sends a keep-alive. A reader that has missed too
    /// much is refused when it resumes.
    async fn wait_for_database(&mut self, error: Error) -> io::Result<Bytes> {
        self.failures += 1;
        let may_pass = matches!(&error, Error::Store(error) if error.may_pass());
        if !may_pass || self.failures > MAX_FAILURES {
            tracing::warn!(%error, "reading the changes of the session list failed");
            return Err(io::Error::other("the changes cannot be read"));
        }
        tokio::select! {
            () = self.api.draining.cancelled() => {}
            () = sleep(RETRY_INTERVAL) => {}
        }
        Ok(self.format.keep_alive_bytes())
    }

    /// Sends the last bytes, then aborts the stream.
    async fn abort(&mut self) -> io::Result<Bytes> {
        if !std::mem::replace(&mut self.is_aborting, true) {
            return Ok(self.format.last_bytes());
        }
        sleep(ABORT_DELAY).await;
        Err(io::Error::other("the service is stopping"))
    }
}
