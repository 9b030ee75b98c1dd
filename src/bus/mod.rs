//! Live signals between workers and readers, within a process and between processes: notifications
//! and previews of streaming output.
//!
//! Signals can be lost; the database is the source of truth. Readers detect missing events by their
//! sequence numbers, and workers poll.

mod hand_over;
mod outbox;
mod postgres;
mod preview;
mod remote;
mod topic;
mod wire;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast::error::TryRecvError;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, broadcast, futures::Notified};

use crate::domain::event::Frame;
use crate::domain::explanation::RunQueuePosition;
use crate::domain::ids::{RunId, SessionId, WorkerId};

use hand_over::HandOverQueue;
pub use hand_over::{HandOver, Reservation, WorkerSlots};
use outbox::Outbox;
pub use postgres::link;
use preview::OpenPreview;
pub use preview::{PreviewFrame, PreviewStart};
use topic::Topic;
use wire::{Message, lists};

/// Capacity of the cancellation channel. A listener that lags behind reads the database at its
/// next heartbeat.
const CANCEL_CAPACITY: usize = 1024;

/// A signal to a reader of a session.
#[derive(Debug, Clone)]
pub enum Signal {
    /// An event was stored.
    Event(Arc<Frame>),
    /// A preview frame, which is not stored.
    Preview(Arc<PreviewFrame>),
    /// Another process stored events up to this sequence number in the database.
    Stored(i64),
    /// Signals may have been lost: the reader must read the database.
    Resync,
}

impl Signal {
    /// Returns the size of the signal in memory, in bytes.
    fn size(&self) -> usize {
        match self {
            Self::Event(frame) => frame.sse().len(),
            Self::Preview(preview) => preview.sse.len(),
            Self::Stored(_) | Self::Resync => 0,
        }
    }
}

/// A request to stop a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancel {
    /// A request to this process, which has stored it.
    Local(RunId),
    /// A notification from another process.
    Remote(RunId),
}

/// The signals to the watch of the queue.
#[derive(Debug, Default)]
struct QueueWatch {
    changed: Notify,
    /// The watch has found queued runs.
    has_runs: AtomicBool,
}

/// The bus of one process and its link to other processes.
#[derive(Debug)]
pub struct Bus {
    /// The ID of this process on the link.
    id: WorkerId,
    topics: Mutex<HashMap<SessionId, Topic>>,
    work: Notify,
    queue_watch: QueueWatch,
    hand_over_queue: HandOverQueue,
    cancels: broadcast::Sender<Cancel>,
    /// Messages to other processes; empty while the link is down.
    outbox: Outbox,
}

impl Default for Bus {
    fn default() -> Self {
        Self {
            id: WorkerId::new(),
            topics: Mutex::default(),
            work: Notify::new(),
            queue_watch: QueueWatch::default(),
            hand_over_queue: HandOverQueue::default(),
            cancels: broadcast::channel(CANCEL_CAPACITY).0,
            outbox: Outbox::default(),
        }
    }
}

impl Bus {
    /// Notifies the workers of all processes that a run is waiting.
    pub fn announce_work(&self) {
        self.wake_worker();
        self.queue_changed();
        self.outbox.send(Message::Work);
    }

    /// Notifies the worker of this process that a run may be waiting.
    pub fn wake_worker(&self) {
        self.work.notify_one();
    }

    /// Waits until a run is announced. Create the future before polling the database, otherwise an
    /// announcement can be missed.
    pub fn work(&self) -> Notified<'_> {
        self.work.notified()
    }

    /// Reports that a run was queued, or that one has left the queue: the positions of others change.
    pub fn queue_changed(&self) {
        self.queue_watch.changed.notify_one();
    }

    /// Waits until the positions of queued runs may have changed, or a reader waits for one.
    pub async fn queue_change(&self) {
        self.queue_watch.changed.notified().await;
    }

    /// Opens the hand-over queue: requests of this process hand runs over while slots are free.
    pub fn open_hand_over(
        &self,
        worker: WorkerId,
        slots: WorkerSlots,
    ) -> UnboundedReceiver<HandOver> {
        self.hand_over_queue.open(worker, slots)
    }

    /// Closes the hand-over queue.
    pub fn close_hand_over(&self) {
        self.hand_over_queue.close();
    }

    /// Reserves a slot for a run before it is accepted. Returns `None` if no slot is free, queued
    /// runs go first, or this process has no worker.
    pub fn reserve(&self) -> Option<Reservation> {
        self.hand_over_queue.reserve()
    }

    /// True if another process of the service is known.
    pub fn has_peers(&self) -> bool {
        self.outbox.has_peers()
    }

    /// Requests the process that executes a run to cancel it.
    pub fn cancel(&self, run_id: RunId) {
        // A process without a worker has no receiver.
        let _ = self.cancels.send(Cancel::Local(run_id));
        self.outbox.send(Message::Cancel { run: run_id });
    }

    /// Subscribes to cancellation requests.
    pub fn cancels(&self) -> broadcast::Receiver<Cancel> {
        self.cancels.subscribe()
    }

    /// Subscribes to a session: its open previews and all further signals.
    pub fn subscribe(self: &Arc<Self>, session_id: SessionId) -> Subscription {
        let mut topics = self.topics();
        let topic = topics.entry(session_id).or_default();
        if !topic.has_readers() {
            // The reader sees the position of its run at once, not at the next periodic read.
            if self.queue_watch.has_runs.load(Ordering::Relaxed) {
                self.queue_changed();
            }
            self.outbox.send(Message::Watch { session: session_id, is_new: true });
        }
        Subscription {
            open: topic.catch_up(),
            receiver: topic.subscribe(),
            bus: Arc::clone(self),
            session_id,
        }
    }

    /// Sends stored events to the readers. An event ends the preview with its ID.
    pub fn publish(&self, session_id: SessionId, frames: Vec<Frame>) {
        let Some(seq) = frames.last().map(|frame| frame.seq) else { return };
        if frames.iter().any(|frame| is_listed(&frame.kind)) {
            self.lists_changed();
        }
        let mut topics = self.topics();
        let mut ended = Vec::new();
        if let Some(topic) = topics.get_mut(&session_id) {
            for frame in frames {
                ended.extend(topic.event(frame));
            }
            if topic.is_idle() {
                topics.remove(&session_id);
            }
        }
        self.outbox.send_to_readers(session_id, || Message::Stored {
            session: session_id,
            seq,
            ended,
        });
    }

    /// Signals the readers of a session in all processes to read the database.
    pub fn resync(&self, session_id: SessionId) {
        if let Some(topic) = self.topics().get_mut(&session_id) {
            topic.send(Signal::Resync);
        }
        let (session, seq, ended) = (session_id, i64::MAX, Vec::new());
        self.outbox.send_to_readers(session_id, || Message::Stored { session, seq, ended });
    }

    /// Reports that a list of sessions has changed to the watches of all processes that have readers.
    pub fn lists_changed(&self) {
        self.resync(lists());
    }

    /// Subscribes to the changes of lists of sessions.
    pub fn subscribe_to_lists(self: &Arc<Self>) -> Subscription {
        self.subscribe(lists())
    }

    /// Reports the positions of queued runs to the readers of their sessions in this process. A session
    /// that is missing has no run that waits for a worker.
    pub fn queue_positions(&self, positions: &HashMap<SessionId, (RunId, RunQueuePosition)>) {
        self.queue_watch.has_runs.store(!positions.is_empty(), Ordering::Relaxed);
        for (session_id, topic) in self.topics().iter_mut() {
            topic.set_queued(*session_id, positions.get(session_id).copied());
        }
    }

    /// Opens a preview, or restarts it if it is open.
    pub fn preview_start(&self, session_id: SessionId, run_id: RunId, start: PreviewStart) {
        let mut topics = self.topics();
        self.outbox.send_to_readers(session_id, || start.message(None, session_id, run_id));
        let topic = topics.entry(session_id).or_default();
        topic.start(OpenPreview::new(session_id, run_id, start));
    }

    /// Adds text to an open preview.
    pub fn preview_delta(&self, session_id: SessionId, event_id: &str, index: usize, text: &str) {
        if let Some(topic) = self.topics().get_mut(&session_id) {
            topic.delta(event_id, index, text);
            self.outbox.send_to_readers(session_id, || Message::Delta {
                to: None,
                session: session_id,
                id: event_id.to_owned(),
                index,
                text: text.to_owned(),
            });
        }
    }

    /// Closes the open previews of a run.
    pub fn end_previews(&self, session_id: SessionId, run_id: RunId) {
        let mut topics = self.topics();
        let Some(topic) = topics.get_mut(&session_id) else { return };
        topic.end_all(run_id);
        self.outbox
            .send_to_readers(session_id, || Message::End { session: session_id, run: run_id });
        if topic.is_idle() {
            topics.remove(&session_id);
        }
    }

    fn topics(&self) -> MutexGuard<'_, HashMap<SessionId, Topic>> {
        // The map is consistent at every point, so a panic in another thread does not matter.
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if a list of sessions shows the change that an event of this type reports.
fn is_listed(kind: &str) -> bool {
    matches!(kind, "session.status_running" | "session.status_idle" | "session.updated")
}

/// A reader's subscription to a session.
#[derive(Debug)]
pub struct Subscription {
    /// Frames of the previews that are open now: for each, a start and the text so far.
    pub open: Vec<Arc<PreviewFrame>>,
    receiver: broadcast::Receiver<Signal>,
    bus: Arc<Bus>,
    session_id: SessionId,
}

impl Subscription {
    /// Waits for the next signal. Returns `None` if the reader was too slow: it must subscribe
    /// again and read the missed events from the database.
    pub async fn next(&mut self) -> Option<Signal> {
        self.receiver.recv().await.ok()
    }

    /// Returns the result of [`Self::next`] if it is available, or `None` if it would wait.
    pub fn try_next(&mut self) -> Option<Option<Signal>> {
        match self.receiver.try_recv() {
            Ok(signal) => Some(Some(signal)),
            Err(TryRecvError::Lagged(_) | TryRecvError::Closed) => Some(None),
            Err(TryRecvError::Empty) => None,
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut topics = self.bus.topics();
        if self.receiver.is_closed() {
            // A reader that was too slow is detached from its topic and may be the last one.
            if topics.get_mut(&self.session_id).is_some_and(Topic::is_unread) {
                topics.remove(&self.session_id);
            }
            return;
        }
        // The count of receivers still includes this one.
        if topics.get_mut(&self.session_id).is_some_and(Topic::is_idle_without_one) {
            topics.remove(&self.session_id);
        }
    }
}

#[cfg(test)]
mod tests;
