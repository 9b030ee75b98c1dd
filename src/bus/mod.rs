//! Live signals between workers and readers: hints and previews, never truth.
//!
//! Whatever is lost here is found again in the database: readers by the numbers of events,
//! workers by polling.

mod desk;
mod outbox;
mod postgres;
mod preview;
mod remote;
mod topic;
mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast::error::TryRecvError;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, Semaphore, broadcast, futures::Notified};

use crate::domain::event::Frame;
use crate::domain::ids::{RunId, SessionId, WorkerId};

use desk::Desk;
pub use desk::{HandOver, Reservation};
use outbox::Outbox;
pub use postgres::link;
use preview::OpenPreview;
pub use preview::{PreviewFrame, PreviewStart};
use topic::Topic;
use wire::Message;

/// Requests to cancel that a slow listener may be behind; it catches up at its next heartbeat.
const CANCEL_CAPACITY: usize = 1024;

/// What a reader of a session is told.
#[derive(Debug, Clone)]
pub enum Signal {
    /// An event was stored.
    Event(Arc<Frame>),
    /// Something streams that is not stored.
    Preview(Arc<PreviewFrame>),
    /// Events up to this number were stored elsewhere; the database has them.
    Stored(i64),
    /// Something may have been missed; the database knows.
    Look,
}

impl Signal {
    /// What it takes to keep it, in bytes.
    fn size(&self) -> usize {
        match self {
            Self::Event(frame) => frame.sse().len(),
            Self::Preview(preview) => preview.sse.len(),
            Self::Stored(_) | Self::Look => 0,
        }
    }
}

/// A request to stop a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancel {
    /// It was made here, and is stored.
    Asked(RunId),
    /// Another process says so.
    Heard(RunId),
}

/// The bus of one process, and its end of the link to others.
#[derive(Debug)]
pub struct Bus {
    /// Tells this process from others.
    id: WorkerId,
    topics: Mutex<HashMap<SessionId, Topic>>,
    work: Notify,
    desk: Desk,
    cancels: broadcast::Sender<Cancel>,
    /// Stays empty as long as nothing links this process with others.
    outbox: Outbox,
}

impl Default for Bus {
    fn default() -> Self {
        Self {
            id: WorkerId::new(),
            topics: Mutex::default(),
            work: Notify::new(),
            desk: Desk::default(),
            cancels: broadcast::channel(CANCEL_CAPACITY).0,
            outbox: Outbox::default(),
        }
    }
}

impl Bus {
    /// Says that a run waits, here and elsewhere.
    pub fn announce_work(&self) {
        self.wake_worker();
        self.outbox.tell(Message::Work);
    }

    /// Says that this process may have a run to take up.
    pub fn wake_worker(&self) {
        self.work.notify_one();
    }

    /// Waits for a run to be announced. Register before looking, or an announcement is missed.
    pub fn work(&self) -> Notified<'_> {
        self.work.notified()
    }

    /// Takes runs from requests of this process, as long as there are free slots.
    pub fn open_desk(
        &self,
        worker: WorkerId,
        slots: Arc<Semaphore>,
    ) -> UnboundedReceiver<HandOver> {
        self.desk.open(worker, slots)
    }

    /// Takes no more runs from requests.
    pub fn close_desk(&self) {
        self.desk.close();
    }

    /// Keeps a slot for a run that is about to be accepted; none if all are taken, or if this
    /// process has no worker.
    pub fn reserve(&self) -> Option<Reservation> {
        self.desk.reserve()
    }

    /// Asks whoever holds a run to stop it.
    pub fn cancel(&self, run_id: RunId) {
        // Nobody listens in a process without a worker.
        let _ = self.cancels.send(Cancel::Asked(run_id));
        self.outbox.tell(Message::Cancel { run: run_id });
    }

    /// Requests to cancel, from now on.
    pub fn cancels(&self) -> broadcast::Receiver<Cancel> {
        self.cancels.subscribe()
    }

    /// Follows a session: what is open now, and everything from now on.
    pub fn subscribe(self: &Arc<Self>, session_id: SessionId) -> Subscription {
        let mut topics = self.topics();
        let topic = topics.entry(session_id).or_default();
        if !topic.has_readers() {
            self.outbox.tell(Message::Watch { session: session_id, is_new: true });
        }
        Subscription {
            open: topic.catch_up(),
            receiver: topic.subscribe(),
            bus: Arc::clone(self),
            session_id,
        }
    }

    /// Tells readers of stored events. An event ends the preview that carries its id.
    pub fn publish(&self, session_id: SessionId, frames: Vec<Frame>) {
        let Some(seq) = frames.last().map(|frame| frame.seq) else { return };
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
        self.outbox.tell_readers(session_id, || Message::Stored {
            session: session_id,
            seq,
            ended,
        });
    }

    /// Sends the readers of a session, here and elsewhere, to the database.
    pub fn look_again(&self, session_id: SessionId) {
        if let Some(topic) = self.topics().get_mut(&session_id) {
            topic.send(Signal::Look);
        }
        let (session, seq, ended) = (session_id, i64::MAX, Vec::new());
        self.outbox.tell_readers(session_id, || Message::Stored { session, seq, ended });
    }

    /// Opens a preview, or resets it if it is open.
    pub fn preview_start(&self, session_id: SessionId, run_id: RunId, start: PreviewStart) {
        let mut topics = self.topics();
        self.outbox.tell_readers(session_id, || start.message(None, session_id, run_id));
        let topic = topics.entry(session_id).or_default();
        topic.start(OpenPreview::new(session_id, run_id, start));
    }

    /// Adds text to an open preview.
    pub fn preview_delta(&self, session_id: SessionId, event_id: &str, index: usize, text: &str) {
        if let Some(topic) = self.topics().get_mut(&session_id) {
            topic.delta(event_id, index, text);
            self.outbox.tell_readers(session_id, || Message::Delta {
                to: None,
                session: session_id,
                id: event_id.to_owned(),
                index,
                text: text.to_owned(),
            });
        }
    }

    /// Forgets what is still open of a run.
    pub fn end_previews(&self, session_id: SessionId, run_id: RunId) {
        let mut topics = self.topics();
        let Some(topic) = topics.get_mut(&session_id) else { return };
        topic.end_all(run_id);
        self.outbox.tell_readers(session_id, || Message::End { session: session_id, run: run_id });
        if topic.is_idle() {
            topics.remove(&session_id);
        }
    }

    fn topics(&self) -> MutexGuard<'_, HashMap<SessionId, Topic>> {
        // A reader can do nothing about a panic elsewhere, and the map is whole at every point.
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reader's place in a session.
#[derive(Debug)]
pub struct Subscription {
    /// Frames that open the previews of this moment: a start and one delta with all text so far.
    pub open: Vec<Arc<PreviewFrame>>,
    receiver: broadcast::Receiver<Signal>,
    bus: Arc<Bus>,
    session_id: SessionId,
}

impl Subscription {
    /// The next signal; none if the reader was too slow and must subscribe again and read the
    /// events it missed from the database.
    pub async fn next(&mut self) -> Option<Signal> {
        self.receiver.recv().await.ok()
    }

    /// What [`Self::next`] would say at once; none if it would wait.
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
            // One that was too slow is of no topic any more; it may have been the last reader.
            if topics.get_mut(&self.session_id).is_some_and(Topic::is_unread) {
                topics.remove(&self.session_id);
            }
            return;
        }
        // This receiver still counts.
        if topics.get_mut(&self.session_id).is_some_and(Topic::is_idle_without_one) {
            topics.remove(&self.session_id);
        }
    }
}

#[cfg(test)]
mod tests;
