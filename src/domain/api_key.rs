//! API keys: `tsk_`, the key's id, `_` and a secret, both in hexadecimal digits.
//!
//! The pattern `tsk_[0-9a-f]{32}_[0-9a-f]{64}` finds leaked keys in logs and files.

use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::ids::{KeyId, TenantId};

/// Length of a secret in bytes.
const SECRET: usize = 32;

/// A complete key with its secret.
pub struct ApiKey {
    id: KeyId,
    secret: [u8; SECRET],
}

/// A text that is not a key. The error does not repeat the text, which may be a mistyped key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a key of the form tsk_…_…")]
pub struct BadKey;

impl ApiKey {
    /// Generates a key from the operating system's random numbers.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut secret = [0; SECRET];
        getrandom::fill(&mut secret)?;
        Ok(Self { id: KeyId::new(), secret })
    }

    /// Returns the id, which may be shown and logged.
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// Returns the hash of the secret, which is stored.
    pub fn hash(&self) -> SecretHash {
        SecretHash(Sha256::digest(self.secret).into())
    }

    /// Returns the complete key. An explicit method, so that no format string prints it by
    /// accident.
    pub fn reveal(&self) -> String {
        let mut text = format!("{}_", self.id);
        for byte in self.secret {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({})", self.id)
    }
}

impl FromStr for ApiKey {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<Self, BadKey> {
        let (id, digits) = text.rsplit_once('_').ok_or(BadKey)?;
        let digits = digits.as_bytes();
        // A key has one canonical form: lower case, no sign.
        let is_plain =
            |text: &[u8]| text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let id_digits = id.strip_prefix(KeyId::PREFIX).and_then(|id| id.strip_prefix('_'));
        let has_plain_id = id_digits.is_some_and(|digits| is_plain(digits.as_bytes()));
        if !has_plain_id || !is_plain(digits) || digits.len() != 2 * SECRET {
            return Err(BadKey);
        }
        let mut secret = [0; SECRET];
        for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = str::from_utf8(pair).map_err(|_| BadKey)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| BadKey)?;
        }
        Ok(Self { id: id.parse().map_err(|_| BadKey)?, secret })
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

/// The permissions of a key. Each scope includes the scopes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Read the tenant's data
    Read,
    /// Create sessions, post messages, decide on calls, and all other operations
    Write,
}

impl Scope {
    /// The scope as text, on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    /// Parses the text of a scope.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Read, Self::Write].into_iter().find(|scope| scope.as_str() == word)
    }
}

/// A key as stored, without its secret.
#[derive(Debug, Clone, Serialize)]
pub struct KeyRecord {
    /// The id.
    pub id: KeyId,
    /// The display name.
    pub name: String,
    /// The tenant that owns the key.
    #[serde(skip)]
    pub tenant_id: TenantId,
    /// The tenant's name.
    pub tenant: String,
    /// The permissions.
    pub scope: Scope,
    /// The current validity.
    pub status: KeyStatus,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of expiry; none for a key that does not expire.
    pub expires_at: Option<Timestamp>,
    /// Time of revocation.
    pub revoked_at: Option<Timestamp>,
    /// Time of the last use, to the minute.
    pub last_used_at: Option<Timestamp>,
}

/// The validity of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyStatus {
    /// Accepted.
    Active,
    /// Expired.
    Expired,
    /// Revoked.
    Revoked,
}

impl KeyStatus {
    /// The status as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(text.parse::<ApiKey>().err(), Some(BadKey), "{text}");
        }
    }

    #[test]
    fn the_debug_output_of_a_key_does_not_contain_its_secret() {
        let key = ApiKey::generate().unwrap();
        assert_eq!(format!("{key:?}"), format!("ApiKey({})", key.id()));
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

    #[test]
    fn each_scope_includes_those_before_it() {
        assert!(Scope::Read < Scope::Write);
        for scope in [Scope::Read, Scope::Write] {
            assert_eq!(Scope::parse(scope.as_str()), Some(scope));
        }
        assert_eq!(Scope::parse("admin"), None);
    }
}
