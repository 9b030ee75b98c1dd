//! What a request is let in with, and who holds it.

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::ids::KeyId;

/// What lets a request in. A stream that it opens ends with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// A key of the API, which may be taken back at any time.
    Key(KeyId),
    /// A token of an identity provider about somebody, until its end.
    Token(SubjectHash, Timestamp),
}

/// For whom limits count: each has them apart from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Holder {
    /// Who has a key of the API.
    Key(KeyId),
    /// Whom tokens are about, however many there are of them.
    Subject(SubjectHash),
}

/// What is kept of whom a token is about, and of who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SubjectHash(pub [u8; 32]);

impl Pass {
    /// Who has it.
    pub const fn holder(self) -> Holder {
        match self {
            Self::Key(id) => Holder::Key(id),
            Self::Token(subject, _) => Holder::Subject(subject),
        }
    }
}

impl SubjectHash {
    /// The hash of a subject, who has this name with this issuer and with no other.
    pub fn of(issuer: &str, subject: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(issuer);
        // No issuer's text goes on in the subject's.
        hash.update([0]);
        hash.update(subject);
        Self(hash.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_another_one_with_another_issuer() {
        let hash = SubjectHash::of("https://a", "bcd");
        assert_eq!(SubjectHash::of("https://a", "bcd"), hash);
        for (issuer, subject) in [("https://a", "bc"), ("https://ab", "cd"), ("https://b", "bcd")] {
            assert_ne!(SubjectHash::of(issuer, subject), hash, "{issuer} {subject}");
        }
    }
}
