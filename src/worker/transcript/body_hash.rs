//! The hashes of the bodies of requests. Each body begins with the one before it, up to the end of its
//! messages, so each byte is hashed once.

use sha2::{Digest as _, Sha256};

use crate::domain::prefix::Hash;

/// The hash of what the last body and the next one have in common.
#[derive(Debug, Default)]
pub(super) struct BodyHash {
    state: Sha256,
    /// The hash of the bytes before the messages.
    head: Option<Hash>,
    /// The number of bytes of messages in `state`.
    length: usize,
}

/// The messages in the body of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct MessageBytes {
    /// Bytes of the body before them.
    pub(super) start: usize,
    /// Those at their beginning that are the same in the transcript.
    pub(super) unchanged: usize,
}

impl BodyHash {
    /// The SHA-256 of a body with these messages.
    pub(super) fn of(&mut self, body: &[u8], messages: MessageBytes) -> [u8; 32] {
        let MessageBytes { start, unchanged } = messages;
        let (Some((head, rest)), true) = (body.split_at_checked(start), start > 0) else {
            return Sha256::digest(body).into();
        };
        let hash = Hash::of_bytes(head);
        if self.head != Some(hash) || self.length > unchanged {
            *self = Self { state: Sha256::new_with_prefix(head), head: Some(hash), length: 0 };
        }
        let new = rest.get(self.length..unchanged).unwrap_or_default();
        self.state.update(new);
        self.length += new.len();
        let end = rest.get(self.length..).unwrap_or_default();
        self.state.clone().chain_update(end).finalize().into()
    }

    /// Records that only this number of bytes of messages is the same from now on.
    pub(super) fn truncate(&mut self, length: usize) {
        if self.length > length {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_hashed(hash: &mut BodyHash, (head, messages, end): (&str, &str, &str), sent: &str) {
        let body = [head, sent, end].concat();
        let common = sent.bytes().zip(messages.bytes()).take_while(|(a, b)| a == b).count();
        let messages = MessageBytes { start: head.len(), unchanged: common };
        let expected: [u8; 32] = Sha256::digest(&body).into();
        assert_eq!(hash.of(body.as_bytes(), messages), expected, "{body}");
    }

    #[test]
    fn the_hash_is_that_of_the_whole_body() {
        let mut hash = BodyHash::default();
        assert_hashed(&mut hash, ("{[", "a", "]}"), "a");
        assert_hashed(&mut hash, ("{[", "a,b", "],1}"), "a,b");
        // A breakpoint in a message, which the next body does not have.
        assert_hashed(&mut hash, ("{[", "a,b,c", "]}"), "a,bX,c");
        assert_hashed(&mut hash, ("{[", "a,b,c,d", "]}"), "a,b,c,d");
        // Before bytes that are hashed already.
        assert_hashed(&mut hash, ("{[", "a,b,c,d", "]}"), "aX,b,c,d");
        assert_hashed(&mut hash, ("{1[", "a,b,c,d", "]}"), "a,b,c,d");
        assert_eq!(hash.length, 7);
        hash.truncate(7);
        assert_eq!(hash.length, 7);
        hash.truncate(3);
        assert_hashed(&mut hash, ("{1[", "a,b,x", "]}"), "a,b,x");
        assert_hashed(&mut hash, ("", "a", ""), "a");
    }
}
