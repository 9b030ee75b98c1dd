//! The prefixes of the requests of a session, compared from one request to the next.

use crate::domain::prefix::{Chain, ChainPosition, Hash, PrefixChange, PrefixHashes};

/// The hashes of the messages of a transcript, and of the messages of the last request.
#[derive(Debug, Default)]
pub(super) struct Prefix {
    chain: Chain,
    /// The hashes of the head of the last request.
    head: Option<HeadHashes>,
    /// The number of messages of the last request.
    sent: usize,
    /// The messages of the last request that were removed since: the index of the first one, and
    /// their hashes.
    removed: Option<(usize, Vec<Hash>)>,
}

/// The hashes of the content before the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::worker) struct HeadHashes {
    /// The hash of the tool definitions.
    pub(in crate::worker) tools: Hash,
    /// The hash of the system prompt.
    pub(in crate::worker) system: Hash,
    /// The hash of the tool choice.
    pub(in crate::worker) choice: Hash,
    /// The hash of the model's name.
    pub(in crate::worker) model: Hash,
    /// The hash of the thinking setting.
    pub(in crate::worker) thinking: Hash,
    /// The hash of the effort.
    pub(in crate::worker) effort: Hash,
}

impl Prefix {
    /// Appends a message.
    pub(super) fn push(&mut self, message: &str) {
        self.chain.push(message);
    }

    /// The position after the last message.
    pub(super) fn position(&self) -> ChainPosition {
        self.chain.position()
    }

    /// Removes the messages after a position.
    pub(super) fn truncate(&mut self, position: ChainPosition) {
        let mut removed = self.chain.truncate(position);
        let from = self.chain.len();
        let (known, more) = self.removed.take().unwrap_or((self.sent, Vec::new()));
        self.removed = Some(if from < known {
            // The messages that were removed before came after these.
            removed.truncate(known - from);
            removed.extend(more);
            (from, removed)
        } else {
            (known, more)
        });
    }

    /// Removes all messages, so that the history is read again.
    pub(super) fn reset(&mut self) {
        self.truncate(ChainPosition::default());
    }

    /// True if a request was recorded.
    pub(super) fn has_request(&self) -> bool {
        self.head.is_some()
    }

    /// Records a request with all messages. Returns the hashes of its prefix and the first difference
    /// from the prefix of the last request.
    pub(super) fn send(&mut self, head: HeadHashes) -> (PrefixHashes, Option<PrefixChange>) {
        let hashes = PrefixHashes {
            tools: head.tools,
            system: head.system,
            messages: self.chain.last(),
            message_count: self.chain.len(),
        };
        let before = self.head.replace(head).unwrap_or(head);
        let removed = self.removed.take();
        let index = removed.and_then(|(from, before)| self.chain.first_change(from, &before));
        self.sent = self.chain.len();
        let change = if before.model != head.model {
            Some(PrefixChange::Model)
        } else if before.tools != head.tools {
            Some(PrefixChange::Tools)
        } else if before.system != head.system {
            Some(PrefixChange::System)
        } else if before.choice != head.choice {
            Some(PrefixChange::ToolChoice)
        } else if before.thinking != head.thinking {
            Some(PrefixChange::Thinking)
        } else if before.effort != head.effort {
            Some(PrefixChange::Effort)
        } else {
            index.map(|index| PrefixChange::Messages { index })
        };
        (hashes, change)
    }

    /// The size in memory, in bytes.
    pub(super) fn size(&self) -> usize {
        self.chain.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(tools: &str, system: &str) -> HeadHashes {
        let [choice, model, thinking, effort] = [Hash::of([""]); 4];
        HeadHashes {
            tools: Hash::of([tools]),
            system: Hash::of([system]),
            choice,
            model,
            thinking,
            effort,
        }
    }

    fn pushed(prefix: &mut Prefix, messages: &[&str]) {
        for message in messages {
            prefix.push(message);
        }
    }

    #[test]
    fn appended_messages_are_no_change_of_the_prefix() {
        let mut prefix = Prefix::default();
        pushed(&mut prefix, &["a"]);
        let (first, change) = prefix.send(head("t", "s"));
        assert_eq!((first.message_count, first.messages, change), (1, Hash::of(["a"]), None));
        pushed(&mut prefix, &["b", "c"]);
        let (second, change) = prefix.send(head("t", "s"));
        assert_eq!((second.message_count, second.messages, change), (3, Hash::of(["abc"]), None));
    }

    #[test]
    fn a_change_is_reported_once_and_at_its_highest_level() {
        let mut prefix = Prefix::default();
        let _ = prefix.send(head("t", "s"));
        assert_eq!(prefix.send(head("t", "other")).1, Some(PrefixChange::System));
        assert_eq!(prefix.send(head("t", "other")).1, None);
        assert_eq!(prefix.send(head("more", "s")).1, Some(PrefixChange::Tools));
        let forbids = HeadHashes { choice: Hash::of(["none"]), ..head("more", "s") };
        assert_eq!(prefix.send(forbids).1, Some(PrefixChange::ToolChoice));
        let (thinking, effort) = (Hash::of(["adaptive"]), Hash::of(["low"]));
        let lower = HeadHashes { effort, ..forbids };
        assert_eq!(prefix.send(lower).1, Some(PrefixChange::Effort));
        let thinks = HeadHashes { thinking, effort: forbids.effort, ..lower };
        assert_eq!(prefix.send(thinks).1, Some(PrefixChange::Thinking));
        let other = HeadHashes { model: Hash::of(["m"]), ..head("t", "s") };
        assert_eq!(prefix.send(other).1, Some(PrefixChange::Model));
    }

    #[test]
    fn messages_that_are_removed_and_appended_again_are_no_change() {
        let mut prefix = Prefix::default();
        pushed(&mut prefix, &["a"]);
        let early = prefix.position();
        pushed(&mut prefix, &["b"]);
        let late = prefix.position();
        pushed(&mut prefix, &["c"]);
        let _ = prefix.send(head("t", "s"));
        for (again, expected) in [
            (["b", "c"], None),
            (["b", "x"], Some(PrefixChange::Messages { index: 2 })),
            (["y", "x"], Some(PrefixChange::Messages { index: 1 })),
        ] {
            pushed(&mut prefix, &["not sent"]);
            prefix.truncate(late.clone());
            prefix.truncate(early.clone());
            pushed(&mut prefix, &again);
            assert_eq!(prefix.send(head("t", "s")).1, expected, "{again:?}");
        }
    }

    #[test]
    fn a_history_that_is_read_again_is_compared_from_its_beginning() {
        let mut prefix = Prefix::default();
        pushed(&mut prefix, &["a", "b"]);
        let _ = prefix.send(head("t", "s"));
        prefix.reset();
        pushed(&mut prefix, &["a", "b", "c"]);
        assert_eq!(prefix.send(head("t", "s")).1, None);
        prefix.reset();
        pushed(&mut prefix, &["a"]);
        let change = PrefixChange::Messages { index: 1 };
        assert_eq!(prefix.send(head("t", "s")).1, Some(change));
    }
}
