//! Hashes of the parts of a request, to find where a request stops repeating the previous one.
//!
//! A prompt cache hits, and thinking blocks stay valid, only while tools, system prompt and earlier
//! messages are repeated byte for byte.

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
    /// The hash of the tool definitions.
    pub tools: Hash,
    /// The hash of the system prompt.
    pub system: Hash,
    /// The hash of all messages.
    pub messages: Hash,
    /// Number of messages.
    pub message_count: usize,
}

/// The position at which a request first differs from the session's previous request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(tag = "level", rename_all = "snake_case")]
pub enum PrefixChange {
    /// The model, each of which has a cache of its own; nothing of the cache is reused.
    Model,
    /// The tool definitions; nothing of the cache is reused.
    Tools,
    /// The system prompt; only the cached tools are reused.
    System,
    /// The tool choice; only the cached tools and system prompt are reused.
    ToolChoice,
    /// The thinking setting; the cached messages are not reused.
    Thinking,
    /// The effort; the cached messages are not reused.
    Effort,
    /// A message; the cached tools and system prompt are reused.
    Messages {
        /// The index of the first different message, among the messages of the request.
        index: usize,
    },
}

impl PrefixChange {
    /// All values of [`PrefixChange::level`].
    pub const LEVELS: [&str; 7] =
        ["model", "tools", "system", "tool_choice", "thinking", "effort", "messages"];

    /// Returns `true` if a client or a limit has asked for other parameters; otherwise the content of
    /// the request differs, which is a defect or costs thinking blocks.
    pub const fn is_requested(self) -> bool {
        match self {
            Self::Model | Self::ToolChoice | Self::Thinking | Self::Effort => true,
            Self::Tools | Self::System | Self::Messages { .. } => false,
        }
    }

    /// The level as text, in events, logs and metrics.
    pub const fn level(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Tools => "tools",
            Self::System => "system",
            Self::ToolChoice => "tool_choice",
            Self::Thinking => "thinking",
            Self::Effort => "effort",
            Self::Messages { .. } => "messages",
        }
    }
}

impl Hash {
    /// Hashes texts as if they were concatenated.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut state = Sha256::new();
        for part in parts {
            state.update(part);
        }
        Self::first_half(state)
    }

    /// Hashes bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self::first_half(Sha256::new_with_prefix(bytes))
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

/// A text that is not a hash.
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

/// Running hashes of consecutive messages: one per message, over all messages up to it.
///
/// The running SHA-256 state is kept, so that each byte is hashed once, when it is appended, and
/// earlier messages are not read again for a request.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    state: Sha256,
    links: Vec<Hash>,
}

/// A position in a chain, to return to.
#[derive(Debug, Clone, Default)]
pub struct ChainPosition {
    state: Sha256,
    links: usize,
}

impl Chain {
    /// Appends a message.
    pub fn push(&mut self, message: &str) {
        self.state.update(message);
        self.links.push(Hash::first_half(self.state.clone()));
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.links.len()
    }

    /// Returns `true` if there are no messages.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Returns the hash of all messages.
    pub fn last(&self) -> Hash {
        self.links.last().copied().unwrap_or_else(|| Hash::of([]))
    }

    /// Returns the position after the last message.
    pub fn position(&self) -> ChainPosition {
        ChainPosition { state: self.state.clone(), links: self.links.len() }
    }

    /// Truncates the chain to a position and returns the removed hashes.
    pub fn truncate(&mut self, position: ChainPosition) -> Vec<Hash> {
        self.state = position.state;
        self.links.split_off(position.links.min(self.links.len()))
    }

    /// Returns the index of the first message, from a position on, whose hash differs from `before`
    /// or that is missing.
    pub fn first_change(&self, from: usize, before: &[Hash]) -> Option<usize> {
        let now = self.links.get(from..).unwrap_or_default();
        let differs = |(at, hash): (usize, &Hash)| (now.get(at) != Some(hash)).then_some(from + at);
        before.iter().enumerate().find_map(differs)
    }

    /// Returns the memory use in bytes.
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
    fn a_hash_is_the_first_half_of_sha256sum() {
        let hash = Hash::of(["a", "bc"]);
        assert_eq!(hash.to_string(), "ba7816bf8f01cfea414140de5dae2223");
        assert_eq!(Hash::try_from(hash.to_string()), Ok(hash));
        for wrong in ["", "ba78", "+a7816bf8f01cfea414140de5dae2223"] {
            assert_eq!(Hash::try_from(wrong.to_owned()), Err(NoHash), "{wrong}");
        }
    }

    #[test]
    fn the_last_hash_covers_all_messages() {
        assert_eq!(chain(&["a", "b", "c"]).last(), Hash::of(["abc"]));
        assert_eq!(chain(&[]).last(), Hash::of([""]));
    }

    #[test]
    fn a_truncated_chain_reports_its_first_change() {
        for (again, change) in [
            (&["b", "c"][..], None),
            (&["b", "c", "d"], None),
            (&["b", "x"], Some(2)),
            (&["x", "c"], Some(1)),
            (&["b"], Some(2)),
        ] {
            let mut chain = chain(&["a"]);
            let position = chain.position();
            chain.push("b");
            chain.push("c");
            let before = chain.truncate(position);
            for message in again {
                chain.push(message);
            }
            assert_eq!(chain.first_change(1, &before), change, "{again:?}");
        }
    }
}
