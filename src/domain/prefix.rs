//! What a request begins with, as hashes: enough to say whether it begins as the one before it
//! did, and where the two part.
//!
//! A prompt cache hits, and thinking blocks stay valid, only as long as tools, system prompt and
//! earlier messages are sent again byte for byte.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The first half of a SHA-256, written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(into = "String", try_from = "String")]
#[schema(value_type = String)]
pub struct Hash([u8; 16]);

/// The hashes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PrefixHashes {
    /// Of the tool definitions.
    pub tools: Hash,
    /// Of the system prompt.
    pub system: Hash,
    /// Of the messages, all together.
    pub messages: Hash,
    /// How many messages there are.
    pub message_count: usize,
}

/// Where a request begins to differ from the one before it in its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(tag = "level", rename_all = "snake_case")]
pub enum PrefixChange {
    /// In the tool definitions; all that is cached is lost.
    Tools,
    /// In the system prompt; of what is cached the tools stay.
    System,
    /// In a message; of what is cached the tools and the system prompt stay.
    Messages {
        /// The first that differs, counted from 0 among those that were sent.
        index: usize,
    },
}

impl PrefixChange {
    /// The words of [`PrefixChange::level`].
    pub const LEVELS: [&str; 3] = ["tools", "system", "messages"];

    /// The word in events, logs and metrics.
    pub const fn level(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::System => "system",
            Self::Messages { .. } => "messages",
        }
    }
}

impl Hash {
    /// The hash of some texts, as if they were one.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut state = Sha256::new();
        for part in parts {
            state.update(part);
        }
        Self::first_half(state)
    }

    fn first_half(state: Sha256) -> Self {
        let mut hash = [0; 16];
        for (half, byte) in hash.iter_mut().zip(state.finalize()) {
            *half = byte;
        }
        Self(hash)
    }
}

impl Display for Hash {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> Self {
        hash.to_string()
    }
}

/// A text that is no hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a hash has 32 hexadecimal digits")]
pub struct NoHash;

impl TryFrom<String> for Hash {
    type Error = NoHash;

    fn try_from(text: String) -> Result<Self, NoHash> {
        let is_plain = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(&text, 16).map_err(|_| NoHash)?;
        if is_plain { Ok(Self(number.to_be_bytes())) } else { Err(NoHash) }
    }
}

/// The hashes of messages that follow each other, one for each message over all up to its end.
///
/// It is SHA-256, which the service uses elsewhere and most processors compute by themselves. The
/// running state goes along with the messages, so that each byte is hashed once, when it comes,
/// and a request costs no look back.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    state: Sha256,
    links: Vec<Hash>,
}

/// A place in a chain to go back to.
#[derive(Debug, Clone, Default)]
pub struct Knot {
    state: Sha256,
    links: usize,
}

impl Chain {
    /// Appends a message.
    pub fn push(&mut self, message: &str) {
        self.state.update(message);
        self.links.push(Hash::first_half(self.state.clone()));
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.links.len()
    }

    /// Whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// The hash of all messages.
    pub fn last(&self) -> Hash {
        self.links.last().copied().unwrap_or_else(|| Hash::of([]))
    }

    /// The place after the last message.
    pub fn knot(&self) -> Knot {
        Knot { state: self.state.clone(), links: self.links.len() }
    }

    /// Goes back to a place, and returns the hashes of the messages beyond it.
    pub fn go_back(&mut self, knot: Knot) -> Vec<Hash> {
        self.state = knot.state;
        self.links.split_off(knot.links.min(self.links.len()))
    }

    /// The first message from a place on whose hash is not as it was, or that is missing now.
    pub fn first_change(&self, from: usize, before: &[Hash]) -> Option<usize> {
        let now = self.links.get(from..).unwrap_or_default();
        let differs = |(at, hash): (usize, &Hash)| (now.get(at) != Some(hash)).then_some(from + at);
        before.iter().enumerate().find_map(differs)
    }

    /// Bytes that it takes.
    pub fn size(&self) -> usize {
        self.links.capacity() * size_of::<Hash>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(messages: &[&str]) -> Chain {
        let mut chain = Chain::default();
        for message in messages {
            chain.push(message);
        }
        chain
    }

    #[test]
    fn a_hash_is_written_as_the_tools_of_the_system_write_it() {
        let hash = Hash::of(["a", "bc"]);
        assert_eq!(hash.to_string(), "ba7816bf8f01cfea414140de5dae2223");
        assert_eq!(Hash::try_from(hash.to_string()), Ok(hash));
        for wrong in ["", "ba78", "+a7816bf8f01cfea414140de5dae2223"] {
            assert_eq!(Hash::try_from(wrong.to_owned()), Err(NoHash), "{wrong}");
        }
    }

    #[test]
    fn the_last_link_is_the_hash_of_all_messages() {
        assert_eq!(chain(&["a", "b", "c"]).last(), Hash::of(["abc"]));
        assert_eq!(chain(&[]).last(), Hash::of([""]));
    }

    #[test]
    fn a_chain_that_went_back_says_where_it_changed() {
        for (again, change) in [
            (&["b", "c"][..], None),
            (&["b", "c", "d"], None),
            (&["b", "x"], Some(2)),
            (&["x", "c"], Some(1)),
            (&["b"], Some(2)),
        ] {
            let mut chain = chain(&["a"]);
            let knot = chain.knot();
            chain.push("b");
            chain.push("c");
            let before = chain.go_back(knot);
            for message in again {
                chain.push(message);
            }
            assert_eq!(chain.first_change(1, &before), change, "{again:?}");
        }
    }
}
