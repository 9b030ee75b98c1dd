//! Credentials of the service: an id with a prefix, `_` and a secret, both in hexadecimal digits.
//!
//! The pattern `(tsk|tbt)_[0-9a-f]{32}_[0-9a-f]{64}` finds leaked credentials in logs and files.

use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Length of a secret in bytes.
const SECRET: usize = 32;

/// The id of a kind of credentials, which may be shown and logged.
pub trait CredentialId: Copy + fmt::Display + FromStr {
    /// The prefix on the wire, without the underscore.
    const PREFIX: &'static str;
    /// The kind of credentials, for error messages.
    const KIND: &'static str;

    /// Generates an id.
    fn generate() -> Self;
}

/// A complete credential with its secret.
pub struct Credential<I> {
    id: I,
    secret: [u8; SECRET],
}

/// A text that is not a credential of the expected kind. The error does not repeat the text, which may
/// be a mistyped credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a {kind} of the form {prefix}_…_…")]
pub struct BadCredential {
    kind: &'static str,
    prefix: &'static str,
}

impl<I: CredentialId> Credential<I> {
    /// Generates a credential from the operating system's random numbers.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut secret = [0; SECRET];
        getrandom::fill(&mut secret)?;
        Ok(Self { id: I::generate(), secret })
    }

    /// Returns the id, which may be shown and logged.
    pub const fn id(&self) -> I {
        self.id
    }

    /// Returns the hash of the secret, which is stored.
    pub fn hash(&self) -> SecretHash {
        SecretHash(Sha256::digest(self.secret).into())
    }

    /// Returns the complete credential. An explicit method, so that no format string prints it by
    /// accident.
    pub fn reveal(&self) -> String {
        let mut text = format!("{}_", self.id);
        for byte in self.secret {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

impl<I: CredentialId> fmt::Debug for Credential<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({})", self.id)
    }
}

impl<I: CredentialId> FromStr for Credential<I> {
    type Err = BadCredential;

    fn from_str(text: &str) -> Result<Self, BadCredential> {
        let bad = BadCredential { kind: I::KIND, prefix: I::PREFIX };
        let (id, digits) = text.rsplit_once('_').ok_or(bad)?;
        let digits = digits.as_bytes();
        // A credential has one canonical form: lower case, no sign.
        let is_plain =
            |text: &[u8]| text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let id_digits = id.strip_prefix(I::PREFIX).and_then(|id| id.strip_prefix('_'));
        let has_plain_id = id_digits.is_some_and(|digits| is_plain(digits.as_bytes()));
        if !has_plain_id || !is_plain(digits) || digits.len() != 2 * SECRET {
            return Err(bad);
        }
        let mut secret = [0; SECRET];
        for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = str::from_utf8(pair).map_err(|_| bad)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| bad)?;
        }
        Ok(Self { id: id.parse().map_err(|_| bad)?, secret })
    }
}

/// The SHA-256 of a secret.
#[derive(Debug, Clone, Copy)]
pub struct SecretHash(pub [u8; 32]);

impl PartialEq for SecretHash {
    /// Compares in constant time.
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretHash {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::api_key::ApiKey;

    #[test]
    fn a_key_survives_its_text() {
        let key = ApiKey::generate().unwrap();
        let text = key.reveal();
        let again: ApiKey = text.parse().unwrap();
        assert_eq!((again.id, again.secret), (key.id, key.secret));
        assert_eq!(text.len(), 101);
        assert!(text.starts_with(&format!("{}_", key.id())));
    }

    #[test]
    fn no_two_keys_share_a_secret() {
        let keys: Vec<ApiKey> = (0..100).map(|_| ApiKey::generate().unwrap()).collect();
        let mut secrets: Vec<_> = keys.iter().map(|key| key.secret).collect();
        secrets.sort_unstable();
        secrets.dedup();
        assert_eq!(secrets.len(), keys.len());
    }

    #[test]
    fn a_text_that_is_almost_a_key_is_refused() {
        let text = ApiKey::generate().unwrap().reveal();
        let capital = text.to_uppercase().replacen("TSK", "tsk", 1);
        let half_capital = format!("{}F", &text[..100]);
        let signed = text.replacen("tsk_", "tsk_+", 1);
        let id = text.rsplit_once('_').unwrap().0;
        for text in [
            "",
            "tsk_",
            id,
            &text[..100],
            &format!("{text}0"),
            &format!(" {text}"),
            &capital,
            &half_capital,
            &signed,
            &text.replacen("tsk_", "key_", 1),
            &text.replacen('_', "é", 2),
        ] {
            assert_eq!(
                text.parse::<ApiKey>().err(),
                Some(BadCredential { kind: "key", prefix: "tsk" }),
                "{text}"
            );
        }
    }

    #[test]
    fn the_debug_output_of_a_key_does_not_contain_its_secret() {
        let key = ApiKey::generate().unwrap();
        assert_eq!(format!("{key:?}"), format!("Credential({})", key.id()));
    }

    #[test]
    fn hashes_are_equal_if_all_bytes_are_equal() {
        let key = ApiKey::generate().unwrap();
        assert_eq!(key.hash(), key.hash());
        for place in [0, 31] {
            let mut other = key.hash();
            other.0[place] ^= 1;
            assert_ne!(key.hash(), other);
        }
    }
}
