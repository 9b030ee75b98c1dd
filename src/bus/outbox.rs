//! What waits to be told to other processes, and whether there is anybody to tell.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::wire::Message;
use crate::domain::ids::{SessionId, WorkerId};

/// Messages that may wait: more than there are streams, whose sessions are all told at once.
/// Beyond it, previews are given up and begin again.
const MAX_WAITING: usize = 40_000;
/// Bytes of text that may wait.
const MAX_TEXT: usize = 4 * 1024 * 1024;
/// How far back a delta looks for one that it can join.
const LOOK_BACK: usize = 64;
/// A process that was not heard of for so long is gone.
const PEER_LIFE: Duration = Duration::from_secs(16);
/// A session that nobody has asked for in so long is not read any more.
const WATCH_LIFE: Duration = Duration::from_secs(31);

/// Where everything waits until the next tick.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    /// Read without the lock: mostly there is nobody to tell.
    has_peers: AtomicBool,
    filled: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Message>,
    /// Bytes of previewed text among it.
    text: usize,
    peers: HashMap<WorkerId, Instant>,
    /// Sessions that are read elsewhere, and when that was last said.
    watched: HashMap<SessionId, Instant>,
}

impl Outbox {
    /// Tells the others, if there are any.
    pub(super) fn tell(&self, message: Message) {
        if self.has_peers.load(Ordering::Relaxed) {
            self.push(message);
        }
    }

    /// Tells those that read this session, if there are any.
    pub(super) fn tell_readers(&self, session_id: SessionId, message: impl FnOnce() -> Message) {
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

    /// Tells whoever may be there.
    pub(super) fn push(&self, message: Message) {
        self.state().push(message);
        self.filled.notify_one();
    }

    /// Waits until there is something to be told.
    pub(super) async fn filled(&self) {
        loop {
            let filled = self.filled.notified();
            if !self.state().waiting.is_empty() {
                return;
            }
            filled.await;
        }
    }

    /// All that waits.
    pub(super) fn take(&self) -> Vec<Message> {
        let mut state = self.state();
        state.text = 0;
        state.waiting.drain(..).collect()
    }

    /// Forgets all that others have said, and what waits for them.
    pub(super) fn forget(&self) {
        *self.state() = State::default();
        self.has_peers.store(false, Ordering::Relaxed);
    }

    /// Notes a process that was heard of; says whether it is new.
    pub(super) fn meet(&self, peer: WorkerId) -> bool {
        let is_new = self.state().peers.insert(peer, Instant::now()).is_none();
        self.has_peers.store(true, Ordering::Relaxed);
        is_new
    }

    /// Forgets a process that has left.
    pub(super) fn part(&self, peer: WorkerId) {
        let mut state = self.state();
        state.peers.remove(&peer);
        self.has_peers.store(!state.peers.is_empty(), Ordering::Relaxed);
    }

    /// Notes that a session is read elsewhere; says whether that is new.
    pub(super) fn watch(&self, session_id: SessionId) -> bool {
        self.state().watched.insert(session_id, Instant::now()).is_none()
    }

    /// Forgets what was not repeated in time.
    pub(super) fn expire(&self) {
        let mut state = self.state();
        state.watched.retain(|_, said_at| said_at.elapsed() < WATCH_LIFE);
        state.peers.retain(|_, heard_at| heard_at.elapsed() < PEER_LIFE);
        self.has_peers.store(!state.peers.is_empty(), Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, message: Message) {
        if message == Message::Work && self.waiting.contains(&message) || self.join(&message) {
            return;
        }
        self.text += text_of(&message);
        self.waiting.push_back(message);
        if self.waiting.len() > MAX_WAITING || self.text > MAX_TEXT {
            // A preview with a hole would be wrong; one that begins again is not.
            self.waiting.retain(|message| !message.is_preview());
            self.waiting.truncate(MAX_WAITING / 2);
            self.waiting.push_back(Message::Hello { is_new: true });
            self.text = 0;
        }
    }

    /// Joins text to what waits of the same preview, unless something else of its session waits
    /// behind that.
    fn join(&mut self, message: &Message) -> bool {
        let Message::Delta { to: None, session, id, index, text } = message else {
            return false;
        };
        let of_session = |waiting: &&mut Message| waiting.session() == Some(*session);
        let last = self.waiting.iter_mut().rev().take(LOOK_BACK).find(of_session);
        match last {
            Some(Message::Delta {
                to: None,
                id: last_id,
                index: last_index,
                text: waiting,
                ..
            }) if last_id == id && last_index == index => {
                waiting.push_str(text);
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
    fn text_of_one_preview_is_told_together_and_in_its_place() {
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
        assert_eq!(outbox.take(), expected);
    }

    #[test]
    fn nothing_is_kept_for_nobody() {
        let outbox = Outbox::default();
        let session = SessionId::new();
        outbox.tell(Message::Work);
        outbox.tell_readers(session, || delta(session, "evt_1", "a"));
        assert_eq!(outbox.take(), []);
        outbox.meet(WorkerId::new());
        outbox.tell(Message::Work);
        outbox.tell_readers(session, || delta(session, "evt_1", "a"));
        assert_eq!(outbox.take(), [Message::Work]);
        outbox.watch(session);
        outbox.tell_readers(session, || delta(session, "evt_1", "a"));
        assert_eq!(outbox.take(), [delta(session, "evt_1", "a")]);
    }

    #[test]
    fn what_is_too_much_costs_previews_and_nothing_else() {
        let outbox = Outbox::default();
        let cancel = Message::Cancel { run: RunId::new() };
        outbox.push(cancel.clone());
        for _ in 0..=MAX_WAITING {
            outbox.push(delta(SessionId::new(), "evt_1", "a"));
        }
        let told = outbox.take();
        assert_eq!(told[..2], [cancel, Message::Hello { is_new: true }]);
    }
}
