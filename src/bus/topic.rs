//! One session on the bus: its readers and open previews.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::broadcast;

use super::Signal;
use super::preview::{OpenPreview, PreviewFrame};
use super::wire::Message;
use crate::domain::event::Frame;
use crate::domain::explanation::RunQueuePosition;
use crate::domain::ids::{RunId, SessionId, WorkerId};

/// Number of signals that a reader may lag behind before it must read the database.
const CAPACITY: usize = 128;
/// Maximum size of the signals that are kept for lagging readers, in bytes.
const CAPACITY_BYTES: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) struct Topic {
    sender: broadcast::Sender<Signal>,
    /// The sizes of the kept signals, oldest first. `bytes` is their sum.
    sizes: VecDeque<usize>,
    bytes: usize,
    open: Vec<OpenPreview>,
    /// The run of the session that is the next to start, and its position in the queue.
    queued: Option<(RunId, RunQueuePosition, Arc<PreviewFrame>)>,
}

impl Default for Topic {
    fn default() -> Self {
        Self {
            sender: broadcast::channel(CAPACITY).0,
            sizes: VecDeque::new(),
            bytes: 0,
            open: Vec::new(),
            queued: None,
        }
    }
}

impl Topic {
    pub(super) fn subscribe(&self) -> broadcast::Receiver<Signal> {
        self.sender.subscribe()
    }

    pub(super) fn catch_up(&self) -> Vec<Arc<PreviewFrame>> {
        let open = self.open.iter().flat_map(OpenPreview::catch_up).map(Arc::new);
        self.queued.iter().map(|(.., frame)| Arc::clone(frame)).chain(open).collect()
    }

    /// Reports the position of a queued run of the session to the readers, if it has changed.
    pub(super) fn set_queued(
        &mut self,
        session_id: SessionId,
        queued: Option<(RunId, RunQueuePosition)>,
    ) {
        let is_changed = match (&self.queued, queued) {
            (Some((run_id, place, _)), Some((other, new))) => {
                (*run_id, place.position) != (other, new.position)
            }
            (None, Some(_)) => true,
            (_, None) => false,
        };
        self.queued = match (self.queued.take(), queued) {
            (_, Some((run_id, place))) if is_changed => {
                let frame = Arc::new(PreviewFrame::queued(session_id, run_id, place));
                self.send(Signal::Preview(Arc::clone(&frame)));
                Some((run_id, place, frame))
            }
            (same, Some(_)) => same,
            (_, None) => None,
        };
    }

    pub(super) fn has_readers(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    /// Sends an event to the readers. Returns the IDs of the previews that it ends.
    pub(super) fn event(&mut self, frame: Frame) -> Vec<String> {
        let ends_all = matches!(
            frame.kind.as_str(),
            // The output of a failed model request is discarded, so its previews end too.
            "span.model_request_end"
                | "session.status_rescheduled"
                | crate::domain::event::STATUS_IDLE
        );
        let is_ended = |preview: &mut OpenPreview| {
            preview.has_id(&frame.id) || ends_all && preview.is_of(frame.run_id)
        };
        if self.queued.as_ref().is_some_and(|(run_id, ..)| frame.run_id == Some(*run_id)) {
            // The run has started or was cancelled.
            self.queued = None;
        }
        let ended = self.open.extract_if(.., is_ended);
        let ended = ended.map(|preview| preview.event_id().to_owned()).collect();
        self.send(Signal::Event(Arc::new(frame)));
        ended
    }

    /// Notifies the readers that another process stored events, and drops the previews that the
    /// events end.
    pub(super) fn stored(&mut self, seq: i64, ended: &[String]) {
        self.open.retain(|preview| !ended.iter().any(|id| preview.has_id(id)));
        self.send(Signal::Stored(seq));
    }

    /// Returns the messages about the previews of this process, for a process that starts to
    /// listen.
    pub(super) fn messages(&self, to: WorkerId) -> impl Iterator<Item = Message> {
        let here = self.open.iter().filter(|preview| !preview.is_remote());
        here.flat_map(move |preview| preview.messages(to))
    }

    /// Drops the previews of other processes.
    pub(super) fn drop_remote(&mut self) {
        self.open.retain(|preview| !preview.is_remote());
    }

    pub(super) fn end_all(&mut self, run_id: RunId) {
        self.open.retain(|preview| !preview.is_of(Some(run_id)));
    }

    pub(super) fn start(&mut self, preview: OpenPreview) {
        self.open.retain(|other| !other.has_id(preview.event_id()));
        self.send(Signal::Preview(Arc::new(preview.start_frame())));
        self.open.push(preview);
    }

    pub(super) fn delta(&mut self, event_id: &str, index: usize, text: &str) {
        let Some(preview) = self.open.iter_mut().find(|preview| preview.has_id(event_id)) else {
            return;
        };
        let frame = preview.push(index, text);
        self.send(Signal::Preview(Arc::new(frame)));
    }

    /// Returns `true` if the topic has neither readers nor open previews and can be removed.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.sender.receiver_count() == 0
    }

    /// Returns `true` if the topic can be removed when one reader leaves. Remote previews are
    /// dropped, because the other processes send them again to the next reader.
    pub(super) fn is_idle_without_one(&mut self) -> bool {
        if self.sender.receiver_count() <= 1 {
            self.drop_remote();
        }
        self.open.is_empty() && self.sender.receiver_count() <= 1
    }

    /// Returns `true` if the topic can be removed after a detached reader has left.
    pub(super) fn is_unread(&mut self) -> bool {
        if !self.has_readers() {
            self.drop_remote();
        }
        self.is_idle()
    }

    pub(super) fn send(&mut self, signal: Signal) {
        let size = signal.size();
        self.drop_received_sizes();
        if self.bytes + size > CAPACITY_BYTES {
            // Closes the readers' queues, so that they read the database.
            let (open, queued) = (std::mem::take(&mut self.open), self.queued.take());
            *self = Self { open, queued, ..Self::default() };
            return;
        }
        // Fails only if there are no readers.
        if self.sender.send(signal).is_ok() {
            self.sizes.push_back(size);
            self.bytes += size;
        }
    }

    /// Removes the sizes of the signals that all readers have received.
    fn drop_received_sizes(&mut self) {
        let kept = self.sender.len();
        while self.sizes.len() > kept {
            self.bytes -= self.sizes.pop_front().unwrap_or_default();
        }
    }
}
