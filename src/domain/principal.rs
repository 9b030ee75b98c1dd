//! The authenticated principal of a request and the owner of its limits.

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::ids::{BrowserTokenId, KeyId};

/// The authenticated principal of a request. Streams end when its authentication does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Principal {
    /// An API key, which can be revoked at any time.
    Key(KeyId),
    /// A token of an identity provider, with its subject and its expiry.
    Token(SubjectHash, Timestamp),
    /// A browser token, which can be revoked at any time.
    BrowserToken(BrowserTokenId),
}

/// The owner of rate and concurrency limits. Each holder has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LimitHolder {
    /// An API key.
    Key(KeyId),
    /// The subject of tokens; all tokens of a subject share the limits.
    Subject(SubjectHash),
    /// A browser token: a browser that sends too much stops neither its back end nor other browsers.
    BrowserToken(BrowserTokenId),
}

/// The hash of a token's issuer and subject, the only part of them that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SubjectHash(pub [u8; 32]);

impl Principal {
    /// Returns the owner of the limits.
    pub const fn holder(self) -> LimitHolder {
        match self {
            Self::Key(id) => LimitHolder::Key(id),
            Self::Token(subject, _) => LimitHolder::Subject(subject),
            Self::BrowserToken(id) => LimitHolder::BrowserToken(id),
        }
    }
}

impl SubjectHash {
    /// Hashes a subject. The same subject of two issuers has two hashes.
    pub fn of(issuer: &str, subject: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(issuer);
        // The separator prevents that issuer and subject run together.
        hash.update([0]);
        hash.update(subject);
        Self(hash.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_subject_of_another_issuer_has_another_hash() {
        let hash = SubjectHash::of("https://a", "bcd");
        assert_eq!(SubjectHash::of("https://a", "bcd"), hash);
        for (issuer, subject) in [("https://a", "bc"), ("https://ab", "cd"), ("https://b", "bcd")] {
            assert_ne!(SubjectHash::of(issuer, subject), hash, "{issuer} {subject}");
        }
    }
}
