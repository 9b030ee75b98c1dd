//! The reader of a stream: the backlog from the database, then live events from the bus.
//!
//! An unfinished stream never ends cleanly, because clients take a clean end for success. It is
//! aborted instead, and clients reconnect.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use std::{io, mem};

use bytes::Bytes;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

use crate::bus::{Signal, Subscription};
use crate::domain::event::Frame;
use crate::http::server::stream_permits::StreamPermit;
use crate::http::state::Api;
use crate::http::stream::encoder::StreamEncoder;
use crate::http::stream::request::{StreamPhase, StreamRequest};
use crate::metrics::GaugeGuard;
use crate::store::StoreError;
use crate::store::events::{EventRange, read_some};
use crate::store::runs::waits_for_client;
use crate::store::sessions::exists;

/// The pause after a failed read of the backlog, and the maximum number of failures in a row.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
const MAX_FAILURES: u32 = 30;
/// The time to write the last bytes before an abort, which discards unwritten ones.
const ABORT_DELAY: Duration = Duration::from_millis(50);
/// The maximum number of events per read, and of remembered event ids.
const PAGE: usize = 256;
/// The maximum number of bytes per read. A stalled reader holds that much, and its connection about
/// the same, so that thousands of them fit into memory.
const PAGE_BYTES: usize = 64 * 1024;

/// The state of one stream.
pub(super) struct Reader<E> {
    api: Arc<Api>,
    request: StreamRequest,
    encoder: E,
    /// None while the backlog is long, because signals would pile up.
    subscription: Option<Subscription>,
    keep_alive: Interval,
    /// Bytes to send before anything else.
    ready: Vec<Bytes>,
    ready_bytes: usize,
    /// Ids of the newest events of the backlog. Their previews are obsolete.
    closed: VecDeque<String>,
    /// The sequence number that the backlog is known to reach, including events of other runs.
    catch_up_to: i64,
    phase: StreamPhase,
    /// Failed reads of the backlog in a row.
    failures: u32,
    is_aborting: bool,
    /// True if the last bytes of a complete stream were sent.
    has_ended: bool,
    /// True if the run may wait for the client, which the end of the backlog decides.
    may_wait: bool,
    _permit: StreamPermit,
    _open: GaugeGuard,
}

impl<E: StreamEncoder> Reader<E> {
    pub(super) fn new(
        api: Arc<Api>,
        request: StreamRequest,
        subscription: Subscription,
        permit: StreamPermit,
        mut encoder: E,
    ) -> Self {
        let mut keep_alive = interval(api.options.keep_alive_every);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        keep_alive.reset();
        let first = encoder.first(request.first_phase != StreamPhase::Ended);
        Self {
            _open: api.metrics.open_stream(),
            api,
            phase: request.first_phase,
            may_wait: request.ends_if_waiting,
            request,
            encoder,
            subscription: Some(subscription),
            keep_alive,
            ready_bytes: first.len(),
            ready: vec![first],
            closed: VecDeque::new(),
            catch_up_to: 0,
            failures: 0,
            is_aborting: false,
            has_ended: false,
            _permit: permit,
        }
    }

    /// The next bytes. An error aborts the connection, and the client reconnects.
    pub(super) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if self.ready_bytes > 0 {
                self.keep_alive.reset();
                return Some(Ok(self.joined()));
            }
            if self.phase == StreamPhase::Ended {
                if mem::replace(&mut self.has_ended, true) {
                    return None;
                }
                let end = self.encoder.end();
                self.give(end);
                if self.ready_bytes == 0 {
                    return None;
                }
                continue;
            }
            if self.api.draining.is_cancelled() {
                return Some(self.abort().await);
            }
            let Some(subscription) = self.subscription.as_mut().filter(|_| self.phase.is_live())
            else {
                // Boxed: the future is large, and a stream is idle most of the time.
                if let Err(error) = Box::pin(self.read_backlog()).await {
                    return Some(self.wait_for_database(&error).await);
                }
                self.failures = 0;
                continue;
            };
            tokio::select! {
                biased;
                () = self.api.draining.cancelled() => {}
                signal = subscription.next() => self.take_all(signal),
                _ = self.keep_alive.tick() => {
                    // A notification may have been lost, so the database is polled.
                    self.phase = StreamPhase::Backlog;
                    return Some(Ok(self.encoder.keep_alive()));
                }
            }
        }
    }

    /// Waits while the database is unavailable, and sends a keep-alive.
    async fn wait_for_database(&mut self, error: &StoreError) -> io::Result<Bytes> {
        self.failures += 1;
        if !error.may_pass() || self.failures > MAX_FAILURES {
            tracing::warn!(%error, "reading the backlog of a stream failed");
            return Err(io::Error::other("the backlog cannot be read"));
        }
        tokio::select! {
            () = self.api.draining.cancelled() => {}
            () = sleep(RETRY_INTERVAL) => {}
        }
        Ok(self.encoder.keep_alive())
    }

    /// Sends the last bytes, then aborts the stream.
    async fn abort(&mut self) -> io::Result<Bytes> {
        if !mem::replace(&mut self.is_aborting, true) {
            return Ok(self.encoder.last());
        }
        sleep(ABORT_DELAY).await;
        Err(io::Error::other("the service is stopping"))
    }

    async fn read_backlog(&mut self) -> Result<(), StoreError> {
        let range = EventRange {
            session_id: self.request.session_id,
            run_id: self.request.run_id,
            after: self.request.after,
            limit: i64::try_from(PAGE).unwrap_or(i64::MAX),
        };
        let bytes = i64::try_from(PAGE_BYTES).unwrap_or(i64::MAX);
        let read = self.api.service.pool.with(self.request.tenant, async |conn| {
            let piece = read_some(conn, range, bytes).await?;
            let is_deleted = piece.frames.is_empty() && !exists(conn, range.session_id).await?;
            Ok::<_, StoreError>((piece, is_deleted))
        });
        let (piece, is_deleted) = read.await?;
        if is_deleted {
            self.end_deleted();
            return Ok(());
        }
        for frame in &piece.frames {
            self.close(frame);
            self.send(frame);
        }
        if self.phase == StreamPhase::Ended {
            return Ok(());
        }
        if !piece.is_last {
            self.subscription = None;
            return Ok(());
        }
        if self.subscription.is_none() {
            // The subscription delivers events stored from now on; another read gets those before it.
            self.subscription = Some(self.api.service.bus.subscribe(self.request.session_id));
            return Ok(());
        }
        if self.may_wait && self.waits_for_client().await? {
            self.phase = StreamPhase::Ended;
            return Ok(());
        }
        self.may_wait = false;
        let Some(subscription) = &mut self.subscription else { return Ok(()) };
        let open = mem::take(&mut subscription.open);
        self.phase = StreamPhase::Live;
        self.request.after = self.request.after.max(self.catch_up_to);
        for preview in open {
            self.take(Some(Signal::Preview(preview)));
        }
        Ok(())
    }

    /// Reports whether the run of the stream waits for the client.
    async fn waits_for_client(&self) -> Result<bool, StoreError> {
        let Some(run_id) = self.request.run_id else { return Ok(false) };
        let StreamRequest { tenant, session_id, .. } = self.request;
        let read = async |conn: &mut _| waits_for_client(conn, tenant, session_id, run_id).await;
        self.api.service.pool.with(tenant, read).await
    }

    /// Ends the stream of a deleted session. Its events are deleted with it, so the reader finds out by
    /// reading.
    fn end_deleted(&mut self) {
        let end = self.encoder.deleted(self.request.session_id);
        self.give(end);
        self.phase = StreamPhase::Ended;
    }

    /// Takes a signal and those already queued, so that one write sends all of them.
    fn take_all(&mut self, first: Option<Signal>) {
        self.take(first);
        while self.phase == StreamPhase::Live
            && self.ready_bytes < PAGE_BYTES
            && let Some(signal) = self.subscription.as_mut().and_then(Subscription::try_next)
        {
            self.take(signal);
        }
    }

    fn take(&mut self, signal: Option<Signal>) {
        match signal {
            // The reader was too slow: continue from the database after the last event.
            None => {
                self.subscription = Some(self.api.service.bus.subscribe(self.request.session_id));
                self.phase = StreamPhase::Backlog;
            }
            Some(Signal::Preview(preview)) => {
                let is_wanted = self.request.deltas
                    && self.request.types.include(preview.kind)
                    && self.request.run_id.is_none_or(|run_id| run_id == preview.run_id)
                    && !self.closed.iter().any(|id| **id == *preview.event_id);
                if is_wanted {
                    let bytes = self.encoder.preview(&preview);
                    self.give(bytes);
                }
            }
            Some(Signal::Resync) => self.phase = StreamPhase::Backlog,
            Some(Signal::Stored(seq)) if seq <= self.request.after => {}
            Some(Signal::Stored(_)) => {
                // The number is only a hint; the database has the events.
                self.closed.clear();
                self.phase = StreamPhase::Backlog;
            }
            Some(Signal::Event(frame)) => {
                if frame.seq <= self.request.after {
                    return;
                }
                if frame.seq > self.request.after + 1 {
                    // Two writers may publish their events in another order than they stored
                    // them. Events with lower numbers are in the database by now.
                    self.catch_up_to = frame.seq;
                    self.phase = StreamPhase::Backlog;
                    return;
                }
                self.closed.clear();
                self.send(&frame);
            }
        }
    }

    /// Remembers an event while the bus may still have previews of it.
    fn close(&mut self, frame: &Frame) {
        if self.closed.len() == PAGE {
            self.closed.pop_front();
        }
        self.closed.push_back(frame.id.clone());
    }

    fn send(&mut self, frame: &Frame) {
        if self.phase == StreamPhase::Ended {
            return;
        }
        self.request.after = frame.seq;
        match self.request.run_id {
            Some(run_id) if frame.run_id != Some(run_id) => return,
            // The client may have answered since: the run then continues after this event.
            Some(_) if frame.awaits_client && !self.phase.is_live() => self.may_wait = true,
            Some(_) if frame.ends_run() => self.phase = StreamPhase::Ended,
            _ => {}
        }
        if self.request.types.include(&frame.kind) {
            let bytes = self.encoder.event(frame);
            self.give(bytes);
            if self.encoder.is_complete() {
                self.phase = StreamPhase::Ended;
            }
        }
    }

    fn give(&mut self, bytes: Bytes) {
        self.ready_bytes += bytes.len();
        if !bytes.is_empty() {
            self.ready.push(bytes);
        }
    }

    /// Joins all ready bytes into one write.
    fn joined(&mut self) -> Bytes {
        self.ready_bytes = 0;
        if self.ready.len() == 1 {
            return self.ready.pop().unwrap_or_default();
        }
        let joined = self.ready.concat();
        // Frees the capacity too: a reader may be idle for hours.
        self.ready = Vec::new();
        joined.into()
    }
}
