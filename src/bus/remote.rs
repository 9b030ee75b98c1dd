//! What this process does with what others tell it.

use super::preview::{OpenPreview, PreviewStart};
use super::wire::{Batch, Message};
use super::{Bus, Cancel, Signal};
use crate::domain::ids::WorkerId;

impl Bus {
    /// Takes in a notification, and says whether it is an echo of ours. What cannot be read comes
    /// from another version, which tells the same in the database.
    pub(super) fn hear(&self, payload: &str) -> bool {
        let Ok(Batch { from, messages }) = serde_json::from_str(payload) else {
            tracing::debug!(bytes = payload.len(), "a notification cannot be read");
            return false;
        };
        if from == self.id {
            return true;
        }
        for message in messages {
            self.take_in(from, message);
        }
        false
    }

    fn take_in(&self, from: WorkerId, message: Message) {
        match message {
            Message::Hello { is_new } => self.greet(from, is_new),
            Message::Bye => self.outbox.part(from),
            Message::Unknown => {}
            Message::Work => self.wake_worker(),
            Message::Cancel { run } => {
                // Nobody listens in a process without a worker.
                let _ = self.cancels.send(Cancel::Heard(run));
            }
            Message::Watch { session, is_new } => {
                // Who was silent for so long that we forgot what it reads has missed a part.
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

    /// A process is here. If it is new to us, or we to it, it must know what is read here.
    fn greet(&self, from: WorkerId, is_new: bool) {
        if self.outbox.meet(from) || is_new {
            self.outbox.push(Message::Hello { is_new: false });
            self.watch_all(true);
        }
    }

    /// Tells which sessions are read here.
    pub(super) fn watch_all(&self, is_new: bool) {
        for (session, topic) in self.topics().iter() {
            if topic.has_readers() {
                self.outbox.tell(Message::Watch { session: *session, is_new });
            }
        }
    }

    /// Sends all readers to the database, and forgets previews that may have holes.
    pub(super) fn look_everywhere(&self) {
        for topic in self.topics().values_mut() {
            topic.forget_remote();
            topic.send(Signal::Look);
        }
    }

    fn is_for_us(&self, to: Option<WorkerId>) -> bool {
        to.is_none_or(|to| to == self.id)
    }
}
