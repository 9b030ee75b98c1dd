//! The queue of messages to other processes, and the known peers.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::wire::{Message, lists};
use crate::domain::ids::{SessionId, WorkerId};

/// Maximum number of queued messages. It exceeds the number of streams, because all their sessions
/// can be announced at once. On overflow, previews are dropped and restarted.
const MAX_QUEUED: usize = 40_000;
/// Maximum size of queued text, in bytes.
const MAX_TEXT: usize = 4 * 1024 * 1024;
/// Number of queued messages that are searched for a delta to merge with.
const MERGE_WINDOW: usize = 64;
/// Time after its last message at which a process counts as gone.
const PEER_LIFE: Duration = Duration::from_secs(16);
/// Time after its last announcement at which a session has no more remote readers.
const WATCH_LIFE: Duration = Duration::from_secs(31);

/// The message queue, drained once per tick.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    /// Read without the lock, because most processes have no peers.
    has_peers: AtomicBool,
    filled: Notify,
}

#[derive(Debug, Default)]
struct State {
    queued: VecDeque<Message>,
    /// Bytes of preview text in the queue.
    text: usize,
    peers: HashMap<WorkerId, Instant>,
    /// Sessions with remote readers, and the time of their last announcement.
    watched: HashMap<SessionId, Instant>,
}

impl Outbox {
    /// Queues a message to all processes, if there are any.
    pub(super) fn send(&self, message: Message) {
        if self.has_peers.load(Ordering::Relaxed) {
            self.push(message);
        }
    }

    /// Queues a message for the remote readers of a session, if there are any.
    pub(super) fn send_to_readers(&self, session_id: SessionId, message: impl FnOnce() -> Message) {
        if !self.has_peers.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state();
        if state.watched.contains_key(&session_id) {
            state.push(message());
            drop(state);
            self.filled.notify_one();
        }
    }

    /// Queues a message even if no peers are known.
    pub(super) fn push(&self, message: Message) {
        self.state().push(message);
        self.filled.notify_one();
    }

    /// Waits until the queue is not empty.
    pub(super) async fn filled(&self) {
        loop {
            let filled = self.filled.notified();
            if !self.state().queued.is_empty() {
                return;
            }
            filled.await;
        }
    }

    /// Drains the queue.
    pub(super) fn drain(&self) -> Vec<Message> {
        let mut state = self.state();
        state.text = 0;
        state.queued.drain(..).collect()
    }

    /// Clears the queue, the known peers and the remote readers.
    pub(super) fn clear(&self) {
        *self.state() = State::default();
        self.has_peers.store(false, Ordering::Relaxed);
    }

    /// True if a peer is known.
    pub(super) fn has_peers(&self) -> bool {
        self.has_peers.load(Ordering::Relaxed)
    }

    /// Records a peer. Returns `true` if it is new.
    pub(super) fn add_peer(&self, peer: WorkerId) -> bool {
        let is_new = self.state().peers.insert(peer, Instant::now()).is_none();
        self.has_peers.store(true, Ordering::Relaxed);
        is_new
    }

    /// Removes a peer.
    pub(super) fn remove_peer(&self, peer: WorkerId) {
        let mut state = self.state();
        state.peers.remove(&peer);
        self.has_peers.store(!state.peers.is_empty(), Ordering::Relaxed);
    }

    /// Records that a session has remote readers. Returns `true` if this is new.
    pub(super) fn watch(&self, session_id: SessionId) -> bool {
        self.state().watched.insert(session_id, Instant::now()).is_none()
    }

    /// Removes peers and sessions that were not announced in time.
    pub(super) fn expire(&self) {
        let mut state = self.state();
        state.watched.retain(|_, said_at| said_at.elapsed() < WATCH_LIFE);
        state.peers.retain(|_, announced_at| announced_at.elapsed() < PEER_LIFE);
        self.has_peers.store(!state.peers.is_empty(), Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, message: Message) {
        let is_hint = message == Message::Work || message.session() == Some(lists());
        if is_hint && self.queued.contains(&message) || self.merge(&message) {
            return;
        }
        self.text += text_of(&message);
        self.queued.push_back(message);
        if self.queued.len() > MAX_QUEUED || self.text > MAX_TEXT {
            // A preview must not have gaps, so all previews restart.
            self.queued.retain(|message| !message.is_preview());
            self.queued.truncate(MAX_QUEUED / 2);
            self.queued.push_back(Message::Hello { is_new: true });
            self.text = 0;
        }
    }

    /// Appends a delta to the queued delta of the same preview, unless another message of its
    /// session is queued after that.
    fn merge(&mut self, message: &Message) -> bool {
        let Message::Delta { to: None, session, id, index, text } = message else {
            return false;
        };
        let of_session = |queued: &&mut Message| queued.session() == Some(*session);
        let last = self.queued.iter_mut().rev().take(MERGE_WINDOW).find(of_session);
        match last {
            Some(Message::Delta {
                to: None, id: last_id, index: last_index, text: queued, ..
            }) if last_id == id && last_index == index => {
                queued.push_str(text);
                self.text += text.len();
                true
            }
            _ => false,
        }
    }
}

fn text_of(message: &Message) -> usize {
    if let Message::Delta { text, .. } = message { text.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::RunId;

    fn delta(session: SessionId, id: &str, text: &str) -> Message {
        Message::Delta { to: None, session, id: id.to_owned(), index: 0, text: text.to_owned() }
    }

    #[test]
    fn deltas_of_one_preview_are_merged_in_order() {
        let outbox = Outbox::default();
        let (one, two) = (SessionId::new(), SessionId::new());
        for (session, text) in [(one, "a"), (two, "b"), (one, "c")] {
            outbox.push(delta(session, "evt_1", text));
        }
        outbox.push(Message::Stored { session: one, seq: 1, ended: Vec::new() });
        outbox.push(delta(one, "evt_1", "d"));
        let expected = [
            delta(one, "evt_1", "ac"),
            delta(two, "evt_1", "b"),
            Message::Stored { session: one, seq: 1, ended: Vec::new() },
            delta(one, "evt_1", "d"),
        ];
        assert_eq!(outbox.drain(), expected);
    }

    #[test]
    fn messages_without_recipients_are_not_queued() {
        let outbox = Outbox::default();
        let session = SessionId::new();
        outbox.send(Message::Work);
        outbox.send_to_readers(session, || delta(session, "evt_1", "a"));
        assert_eq!(outbox.drain(), []);
        outbox.add_peer(WorkerId::new());
        outbox.send(Message::Work);
        outbox.send_to_readers(session, || delta(session, "evt_1", "a"));
        assert_eq!(outbox.drain(), [Message::Work]);
        outbox.watch(session);
        outbox.send_to_readers(session, || delta(session, "evt_1", "a"));
        assert_eq!(outbox.drain(), [delta(session, "evt_1", "a")]);
    }

    #[test]
    fn an_overflow_drops_only_previews() {
        let outbox = Outbox::default();
        let cancel = Message::Cancel { run: RunId::new() };
        outbox.push(cancel.clone());
        for _ in 0..=MAX_QUEUED {
            outbox.push(delta(SessionId::new(), "evt_1", "a"));
        }
        let sent = outbox.drain();
        assert_eq!(sent[..2], [cancel, Message::Hello { is_new: true }]);
    }
}
