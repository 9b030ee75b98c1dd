//! Streams of events: the backlog from the database, then whatever comes.
//!
//! Frames are written by hand, in the form that `stream_form` gives them. A stream that is not
//! finished never ends cleanly, because clients take a clean end for success.

use std::collections::VecDeque;
use std::time::Duration;
use std::{io, mem};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

use crate::bus::{Signal, Subscription};
use crate::domain::event::{Farewell, Frame};
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::http::server::stream_permits::StreamPermit;
use crate::http::state::Api;
use crate::http::stream::event_types::EventTypes;
use crate::http::stream::form::StreamForm;
use crate::metrics::Held;
use crate::store::StoreError;
use crate::store::events::{Range, read_some};
use crate::store::sessions::exists;

/// The pause after a backlog that could not be read, and how many of them a stream survives.
const RETRY_EVERY: Duration = Duration::from_secs(1);
const MAX_FAILURES: u32 = 30;
/// Time for the last bytes to be written, because an error discards what is not.
const TEARS_AFTER: Duration = Duration::from_millis(50);
/// Events read at a time, and remembered.
const PAGE: usize = 256;
/// Bytes read at a time. A reader that stalls holds as much, and its connection about as much
/// again, so that thousands of them fit into memory.
const PAGE_BYTES: usize = 64 * 1024;

/// What a reader follows.
#[derive(Debug, Clone)]
pub(in crate::http) struct Follow {
    /// Whose session it is.
    pub(in crate::http) tenant: TenantId,
    /// The session.
    pub(in crate::http) session_id: SessionId,
    /// Only this run, whose rest ends the stream.
    pub(in crate::http) run_id: Option<RunId>,
    /// The number of the event that the reader saw last.
    pub(in crate::http) after: i64,
    /// Whether previews are wanted.
    pub(in crate::http) deltas: bool,
    /// Which types of them.
    pub(in crate::http) types: EventTypes,
    /// Where the stream begins.
    pub(in crate::http) begins: Phase,
    /// How it is written.
    pub(in crate::http) form: StreamForm,
}

/// What a reader is given next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Phase {
    /// What the database has.
    Backlog,
    /// What the bus brings. To begin here, the subscription must be older than what is followed.
    Live,
    /// Nothing more: there will never be any.
    Ended,
}

impl Phase {
    fn is_live(self) -> bool {
        self == Self::Live
    }
}

/// Streams what is followed. A subscription made before the run was accepted misses nothing of it.
pub(in crate::http) fn respond(
    api: &Api,
    follow: Follow,
    subscription: Subscription,
    place: StreamPermit,
) -> Response {
    let form = follow.form;
    let reader = Reader::new(api.clone(), follow, subscription, place);
    let body = stream::unfold(reader, async |mut reader| {
        let item = reader.next().await?;
        Some((item, reader))
    });
    streamed(Body::from_stream(body), form)
}

/// A response whose body is a stream of events, on its way to the client as every other.
pub(in crate::http) fn streamed(body: Body, form: StreamForm) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(form.media_type()));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// One reader's place in a stream.
struct Reader {
    api: Api,
    follow: Follow,
    /// None while there is much to read: signals would only wait.
    subscription: Option<Subscription>,
    keep_alive: Interval,
    /// Bytes to be sent before anything else is looked at.
    ready: Vec<Bytes>,
    ready_bytes: usize,
    /// The newest events that came from the backlog: what still streams of them is old.
    closed: VecDeque<String>,
    /// The number up to which the backlog is known to reach, whosever events those are.
    catch_up_to: i64,
    phase: Phase,
    /// How often in a row the backlog could not be read.
    failures: u32,
    is_torn: bool,
    _place: StreamPermit,
    _open: Held,
}

impl Reader {
    fn new(api: Api, follow: Follow, subscription: Subscription, place: StreamPermit) -> Self {
        let mut keep_alive = interval(api.options.keep_alive_every);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        keep_alive.reset();
        let first = follow.form.first(follow.begins != Phase::Ended);
        Self {
            _open: api.metrics.open_stream(),
            api,
            phase: follow.begins,
            follow,
            subscription: Some(subscription),
            keep_alive,
            ready_bytes: first.len(),
            ready: vec![first],
            closed: VecDeque::new(),
            catch_up_to: 0,
            failures: 0,
            is_torn: false,
            _place: place,
        }
    }

    /// The next bytes. An error tears the connection, and the client comes back.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if self.ready_bytes > 0 {
                self.keep_alive.reset();
                return Some(Ok(self.joined()));
            }
            if self.phase == Phase::Ended {
                return None;
            }
            if self.api.draining.is_cancelled() {
                return Some(self.tear().await);
            }
            let Some(subscription) = self.subscription.as_mut().filter(|_| self.phase.is_live())
            else {
                if let Err(error) = self.read_backlog().await {
                    return Some(self.wait_out(&error).await);
                }
                self.failures = 0;
                continue;
            };
            tokio::select! {
                biased;
                () = self.api.draining.cancelled() => {}
                signal = subscription.next() => self.take_all(signal),
                _ = self.keep_alive.tick() => {
                    // Silence may mean that nobody told us: the database knows.
                    self.phase = Phase::Backlog;
                    return Some(Ok(self.follow.form.keep_alive()));
                }
            }
        }
    }

    /// Waits for a database that is away, and meanwhile tells the client that somebody is there.
    async fn wait_out(&mut self, error: &StoreError) -> io::Result<Bytes> {
        self.failures += 1;
        if !error.may_pass() || self.failures > MAX_FAILURES {
            tracing::warn!(%error, "a stream's backlog cannot be read");
            return Err(io::Error::other("the backlog cannot be read"));
        }
        tokio::select! {
            () = self.api.draining.cancelled() => {}
            () = sleep(RETRY_EVERY) => {}
        }
        Ok(self.follow.form.keep_alive())
    }

    /// A last word to the client, and then the tear.
    async fn tear(&mut self) -> io::Result<Bytes> {
        if !mem::replace(&mut self.is_torn, true) {
            return Ok(self.follow.form.last());
        }
        sleep(TEARS_AFTER).await;
        Err(io::Error::other("the service is stopping"))
    }

    async fn read_backlog(&mut self) -> Result<(), StoreError> {
        let range = Range {
            session_id: self.follow.session_id,
            run_id: self.follow.run_id,
            after: self.follow.after,
            limit: i64::try_from(PAGE).unwrap_or(i64::MAX),
        };
        let bytes = i64::try_from(PAGE_BYTES).unwrap_or(i64::MAX);
        let mut conn = self.api.pool.acquire_as(self.follow.tenant).await?;
        let piece = read_some(&mut conn, range, bytes).await?;
        let is_deleted = piece.frames.is_empty() && !exists(&mut conn, range.session_id).await?;
        conn.give_back();
        if is_deleted {
            self.take_leave();
            return Ok(());
        }
        for frame in &piece.frames {
            self.close(frame);
            self.send(frame);
        }
        if self.phase == Phase::Ended {
            return Ok(());
        }
        if !piece.is_last {
            self.subscription = None;
            return Ok(());
        }
        let Some(subscription) = &mut self.subscription else {
            // What is stored from now on is heard of; what was stored up to now is read.
            self.subscription = Some(self.api.bus.subscribe(self.follow.session_id));
            return Ok(());
        };
        let open = mem::take(&mut subscription.open);
        self.phase = Phase::Live;
        self.follow.after = self.follow.after.max(self.catch_up_to);
        for preview in open {
            self.take(Some(Signal::Preview(preview)));
        }
        Ok(())
    }

    /// What is not there is not told of by events, so the reader has to look for itself.
    fn take_leave(&mut self) {
        let farewell = Farewell::SessionDeleted { session_id: self.follow.session_id };
        self.give(farewell.sse().into());
        self.phase = Phase::Ended;
    }

    /// Takes a signal and what came with it, so that they are written together.
    fn take_all(&mut self, first: Option<Signal>) {
        self.take(first);
        while self.phase == Phase::Live
            && self.ready_bytes < PAGE_BYTES
            && let Some(signal) = self.subscription.as_mut().and_then(Subscription::try_next)
        {
            self.take(signal);
        }
    }

    fn take(&mut self, signal: Option<Signal>) {
        match signal {
            // Too slow: begin again where the last event left off.
            None => {
                self.subscription = Some(self.api.bus.subscribe(self.follow.session_id));
                self.phase = Phase::Backlog;
            }
            Some(Signal::Preview(preview)) => {
                let is_wanted = self.follow.deltas
                    && self.follow.types.hold(preview.kind)
                    && self.follow.run_id.is_none_or(|run_id| run_id == preview.run_id)
                    && !self.closed.iter().any(|id| **id == *preview.event_id);
                if is_wanted {
                    self.give(preview.sse.clone());
                }
            }
            Some(Signal::Look) => self.phase = Phase::Backlog,
            Some(Signal::Stored(seq)) if seq <= self.follow.after => {}
            Some(Signal::Stored(_)) => {
                // Hearsay: what is read says how far the events reach, not this number.
                self.closed.clear();
                self.phase = Phase::Backlog;
            }
            Some(Signal::Event(frame)) => {
                if frame.seq <= self.follow.after {
                    return;
                }
                if frame.seq > self.follow.after + 1 {
                    // Two writers may tell of their events in another order than they stored
                    // them. Whatever has a lower number is in the database by now.
                    self.catch_up_to = frame.seq;
                    self.phase = Phase::Backlog;
                    return;
                }
                self.closed.clear();
                self.send(&frame);
            }
        }
    }

    /// Remembers an event as long as the bus may still have something of it.
    fn close(&mut self, frame: &Frame) {
        if self.closed.len() == PAGE {
            self.closed.pop_front();
        }
        self.closed.push_back(frame.id.clone());
    }

    fn send(&mut self, frame: &Frame) {
        if self.phase == Phase::Ended {
            return;
        }
        self.follow.after = frame.seq;
        match self.follow.run_id {
            Some(run_id) if frame.run_id != Some(run_id) => return,
            Some(_) if frame.ends_run() => self.phase = Phase::Ended,
            _ => {}
        }
        if self.follow.types.hold(&frame.kind) {
            self.give(frame.sse());
        }
    }

    fn give(&mut self, sse: Bytes) {
        let bytes = self.follow.form.frame(sse);
        self.ready_bytes += bytes.len();
        self.ready.push(bytes);
    }

    /// One write for all that is ready.
    fn joined(&mut self) -> Bytes {
        self.ready_bytes = 0;
        if self.ready.len() == 1 {
            return self.ready.pop().unwrap_or_default();
        }
        let joined = self.ready.concat();
        // Not its room either: a reader may be quiet for hours.
        self.ready = Vec::new();
        joined.into()
    }
}
