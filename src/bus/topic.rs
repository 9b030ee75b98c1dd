//! One session on the bus: its readers and what is open.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::broadcast;

use super::Signal;
use super::preview::{OpenPreview, PreviewFrame};
use super::wire::Message;
use crate::domain::event::Frame;
use crate::domain::ids::{RunId, WorkerId};

/// Signals that a reader may be behind before it has to read from the database again.
const CAPACITY: usize = 256;
/// Bytes of signals that are kept for readers who are behind.
const CAPACITY_BYTES: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) struct Topic {
    sender: broadcast::Sender<Signal>,
    /// The sizes of what was sent last, oldest first, and their sum.
    sizes: VecDeque<usize>,
    bytes: usize,
    open: Vec<OpenPreview>,
}

impl Default for Topic {
    fn default() -> Self {
        Self {
            sender: broadcast::channel(CAPACITY).0,
            sizes: VecDeque::new(),
            bytes: 0,
            open: Vec::new(),
        }
    }
}

impl Topic {
    pub(super) fn subscribe(&self) -> broadcast::Receiver<Signal> {
        self.sender.subscribe()
    }

    pub(super) fn catch_up(&self) -> Vec<Arc<PreviewFrame>> {
        self.open.iter().flat_map(OpenPreview::catch_up).map(Arc::new).collect()
    }

    pub(super) fn has_readers(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    /// Tells of an event, and says which previews it ends.
    pub(super) fn event(&mut self, frame: Frame) -> Vec<String> {
        let ends_all = matches!(
            frame.kind.as_str(),
            // What a request said that failed is not what the next one will say.
            "span.model_request_end"
                | "session.status_rescheduled"
                | crate::domain::event::STATUS_IDLE
        );
        let is_ended = |preview: &mut OpenPreview| {
            preview.has_id(&frame.id) || ends_all && preview.is_of(frame.run_id)
        };
        let ended = self.open.extract_if(.., is_ended);
        let ended = ended.map(|preview| preview.event_id().to_owned()).collect();
        self.send(Signal::Event(Arc::new(frame)));
        ended
    }

    /// Tells that events were stored elsewhere, and forgets the previews that they end.
    pub(super) fn stored(&mut self, seq: i64, ended: &[String]) {
        self.open.retain(|preview| !ended.iter().any(|id| preview.has_id(id)));
        self.send(Signal::Stored(seq));
    }

    /// What is open here, for a process that begins to listen.
    pub(super) fn messages(&self, to: WorkerId) -> impl Iterator<Item = Message> {
        let here = self.open.iter().filter(|preview| !preview.is_remote());
        here.flat_map(move |preview| preview.messages(to))
    }

    /// Forgets what other processes stream.
    pub(super) fn forget_remote(&mut self) {
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

    /// Whether nothing is lost by forgetting it.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.sender.receiver_count() == 0
    }

    /// Whether nothing is lost by forgetting it when one reader leaves. What others stream is
    /// told again to the next one.
    pub(super) fn is_idle_without_one(&mut self) -> bool {
        if self.sender.receiver_count() <= 1 {
            self.forget_remote();
        }
        self.open.is_empty() && self.sender.receiver_count() <= 1
    }

    /// Whether nothing is lost by forgetting it, now that a reader has left that was not of it.
    pub(super) fn is_unread(&mut self) -> bool {
        if !self.has_readers() {
            self.forget_remote();
        }
        self.is_idle()
    }

    pub(super) fn send(&mut self, signal: Signal) {
        let size = signal.size();
        self.forget_heard();
        if self.bytes + size > CAPACITY_BYTES {
            // Readers find their queue closed, and turn to the database.
            *self = Self { open: std::mem::take(&mut self.open), ..Self::default() };
            return;
        }
        // Without readers there is nobody to tell.
        if self.sender.send(signal).is_ok() {
            self.sizes.push_back(size);
            self.bytes += size;
        }
    }

    /// What every reader has heard is kept no more.
    fn forget_heard(&mut self) {
        let kept = self.sender.len();
        while self.sizes.len() > kept {
            self.bytes -= self.sizes.pop_front().unwrap_or_default();
        }
    }
}
