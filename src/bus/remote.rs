//! Handling of messages from other processes.

use super::preview::{OpenPreview, PreviewStart};
use super::wire::{Batch, Message};
use super::{Bus, Cancel, Signal};
use crate::domain::ids::WorkerId;

impl Bus {
    /// Handles a notification. Returns `true` if this process sent it. Ignores notifications that
    /// cannot be parsed: they come from another version, and the database has the same information.
    pub(super) fn handle_payload(&self, payload: &str) -> bool {
        let Ok(Batch { from, messages }) = serde_json::from_str(payload) else {
            tracing::debug!(bytes = payload.len(), "notification not readable; ignored");
            return false;
        };
        if from == self.id {
            return true;
        }
        for message in messages {
            self.handle_message(from, message);
        }
        false
    }

    fn handle_message(&self, from: WorkerId, message: Message) {
        match message {
            Message::Hello { is_new } => self.handle_hello(from, is_new),
            Message::Bye => self.outbox.remove_peer(from),
            Message::Unknown => {}
            Message::Work => {
                self.wake_worker();
                self.queue_changed();
            }
            Message::Cancel { run } => {
                // A process without a worker has no receiver.
                let _ = self.cancels.send(Cancel::Remote(run));
            }
            Message::Watch { session, is_new } => {
                // A peer whose announcement had expired has missed deltas.
                let is_new = self.outbox.watch(session) || is_new;
                if is_new && let Some(topic) = self.topics().get(&session) {
                    topic.messages(from).for_each(|message| self.outbox.push(message));
                }
            }
            Message::Stored { session, seq, ended } => {
                if let Some(topic) = self.topics().get_mut(&session) {
                    topic.stored(seq, &ended);
                }
            }
            Message::Start { to, session, run, id, kind, name } => {
                if self.is_for_us(to)
                    && let Some(topic) = self.topics().get_mut(&session)
                    && topic.has_readers()
                {
                    let start = PreviewStart { event_id: id, kind, name };
                    topic.start(OpenPreview::remote(session, run, start));
                }
            }
            Message::Delta { to, session, id, index, text } => {
                if self.is_for_us(to)
                    && let Some(topic) = self.topics().get_mut(&session)
                {
                    topic.delta(&id, index, &text);
                }
            }
            Message::End { session, run } => {
                if let Some(topic) = self.topics().get_mut(&session) {
                    topic.end_all(run);
                }
            }
        }
    }

    /// Handles the announcement of a process. If either side is new to the other, announces the
    /// sessions that are read here.
    fn handle_hello(&self, from: WorkerId, is_new: bool) {
        if self.outbox.add_peer(from) || is_new {
            self.outbox.push(Message::Hello { is_new: false });
            self.watch_all(true);
        }
    }

    /// Announces the sessions that are read in this process.
    pub(super) fn watch_all(&self, is_new: bool) {
        for (session, topic) in self.topics().iter() {
            if topic.has_readers() {
                self.outbox.send(Message::Watch { session: *session, is_new });
            }
        }
    }

    /// Makes all readers read the database, and drops remote previews, which may have gaps.
    pub(super) fn resync_all(&self) {
        for topic in self.topics().values_mut() {
            topic.drop_remote();
            topic.send(Signal::Resync);
        }
    }

    fn is_for_us(&self, to: Option<WorkerId>) -> bool {
        to.is_none_or(|to| to == self.id)
    }
}
