//! What the requests of a session begin with, from one to the next.

use crate::domain::prefix::{Chain, Hash, Knot, PrefixChange, PrefixHashes};

/// The hashes of a transcript's messages, and of what was sent of them last.
#[derive(Debug, Default)]
pub(super) struct Prefix {
    chain: Chain,
    /// The settings of the last request.
    head: Option<HeadHashes>,
    /// The messages of the last request.
    sent: usize,
    /// What was taken off of those since, from a place on.
    taken: Option<(usize, Vec<Hash>)>,
}

/// The hashes of what stands before the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::worker) struct HeadHashes {
    /// Of the tool definitions.
    pub(in crate::worker) tools: Hash,
    /// Of the system prompt.
    pub(in crate::worker) system: Hash,
}

impl Prefix {
    /// Appends a message.
    pub(super) fn push(&mut self, message: &str) {
        self.chain.push(message);
    }

    /// The place after the last message.
    pub(super) fn knot(&self) -> Knot {
        self.chain.knot()
    }

    /// Takes off the messages beyond a place.
    pub(super) fn go_back(&mut self, knot: Knot) {
        let mut taken = self.chain.go_back(knot);
        let from = self.chain.len();
        let (known, more) = self.taken.take().unwrap_or((self.sent, Vec::new()));
        self.taken = Some(if from < known {
            // What was taken off before stood behind this.
            taken.truncate(known - from);
            taken.extend(more);
            (from, taken)
        } else {
            (known, more)
        });
    }

    /// Takes off everything: the history is read anew.
    pub(super) fn begin_again(&mut self) {
        self.go_back(Knot::default());
    }

    /// A request is made with all messages. Says what it begins with, and where that differs from
    /// the last one.
    pub(super) fn send(&mut self, head: HeadHashes) -> (PrefixHashes, Option<PrefixChange>) {
        let hashes = PrefixHashes {
            tools: head.tools,
            system: head.system,
            messages: self.chain.last(),
            message_count: self.chain.len(),
        };
        let before = self.head.replace(head).unwrap_or(head);
        let taken = self.taken.take();
        let index = taken.and_then(|(from, before)| self.chain.first_change(from, &before));
        self.sent = self.chain.len();
        let change = if before.tools != head.tools {
            Some(PrefixChange::Tools)
        } else if before.system != head.system {
            Some(PrefixChange::System)
        } else {
            index.map(|index| PrefixChange::Messages { index })
        };
        (hashes, change)
    }

    /// Bytes that it takes.
    pub(super) fn size(&self) -> usize {
        self.chain.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(tools: &str, system: &str) -> HeadHashes {
        HeadHashes { tools: Hash::of([tools]), system: Hash::of([system]) }
    }

    fn pushed(prefix: &mut Prefix, messages: &[&str]) {
        for message in messages {
            prefix.push(message);
        }
    }

    #[test]
    fn a_conversation_that_grows_does_not_change() {
        let mut prefix = Prefix::default();
        pushed(&mut prefix, &["a"]);
        let (first, change) = prefix.send(head("t", "s"));
        assert_eq!((first.message_count, first.messages, change), (1, Hash::of(["a"]), None));
        pushed(&mut prefix, &["b", "c"]);
        let (second, change) = prefix.send(head("t", "s"));
        assert_eq!((second.message_count, second.messages, change), (3, Hash::of(["abc"]), None));
    }

    #[test]
    fn a_change_is_told_once_and_at_its_highest_level() {
        let mut prefix = Prefix::default();
        let _ = prefix.send(head("t", "s"));
        assert_eq!(prefix.send(head("t", "other")).1, Some(PrefixChange::System));
        assert_eq!(prefix.send(head("t", "other")).1, None);
        assert_eq!(prefix.send(head("more", "s")).1, Some(PrefixChange::Tools));
    }

    #[test]
    fn what_is_taken_off_and_put_back_as_it_was_is_no_change() {
        let mut prefix = Prefix::default();
        pushed(&mut prefix, &["a"]);
        let early = prefix.knot();
        pushed(&mut prefix, &["b"]);
        let late = prefix.knot();
        pushed(&mut prefix, &["c"]);
        let _ = prefix.send(head("t", "s"));
        for (again, expected) in [
            (["b", "c"], None),
            (["b", "x"], Some(PrefixChange::Messages { index: 2 })),
            (["y", "x"], Some(PrefixChange::Messages { index: 1 })),
        ] {
            pushed(&mut prefix, &["not sent"]);
            prefix.go_back(late.clone());
            prefix.go_back(early.clone());
            pushed(&mut prefix, &again);
            assert_eq!(prefix.send(head("t", "s")).1, expected, "{again:?}");
        }
    }

    #[test]
    fn a_history_that_is_read_anew_is_compared_from_its_beginning() {
        let mut prefix = Prefix::default();
        pushed(&mut prefix, &["a", "b"]);
        let _ = prefix.send(head("t", "s"));
        prefix.begin_again();
        pushed(&mut prefix, &["a", "b", "c"]);
        assert_eq!(prefix.send(head("t", "s")).1, None);
        prefix.begin_again();
        pushed(&mut prefix, &["a"]);
        let change = PrefixChange::Messages { index: 1 };
        assert_eq!(prefix.send(head("t", "s")).1, Some(change));
    }
}
