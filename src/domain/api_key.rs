//! Keys of the API: `tsk_`, the key's id, `_` and a secret, both in hexadecimal digits.
//!
//! One pattern finds them wherever they were left: `tsk_[0-9a-f]{32}_[0-9a-f]{64}`.

use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::ids::{KeyId, TenantId};

/// Bytes of a secret.
const SECRET: usize = 32;

/// A key as its owner holds it.
pub struct ApiKey {
    id: KeyId,
    secret: [u8; SECRET],
}

/// A text that is not a key. It does not repeat the text, which may be a key all but for a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a key of the form tsk_…_…")]
pub struct BadKey;

impl ApiKey {
    /// A new key, of random bits that the operating system gives.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut secret = [0; SECRET];
        getrandom::fill(&mut secret)?;
        Ok(Self { id: KeyId::new(), secret })
    }

    /// What may be shown and logged of it.
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// What is stored of its secret.
    pub fn hash(&self) -> SecretHash {
        SecretHash(Sha256::digest(self.secret).into())
    }

    /// The whole key. For its owner only, which is why nothing prints it by accident.
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
        // One key has one form: no capitals, no signs.
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
    /// Takes as long for hashes that differ in the first byte as for equal ones.
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretHash {}

/// What a key may do. Each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Look at what the tenant has
    Read,
    /// Make sessions, post messages, decide on calls, and all else
    Write,
}

impl Scope {
    /// The word on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    /// The scope of this word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Read, Self::Write].into_iter().find(|scope| scope.as_str() == word)
    }
}

/// What is known of a key.
#[derive(Debug, Clone, Serialize)]
pub struct KeyRecord {
    /// Which key.
    pub id: KeyId,
    /// A name for people.
    pub name: String,
    /// The owner of what it opens.
    #[serde(skip)]
    pub tenant_id: TenantId,
    /// The owner's name.
    pub tenant: String,
    /// What it may do.
    pub scope: Scope,
    /// Whether it opens anything.
    pub status: KeyStatus,
    /// When it was made.
    pub created_at: Timestamp,
    /// Until when it is good, if not for ever.
    pub expires_at: Option<Timestamp>,
    /// When it was taken back.
    pub revoked_at: Option<Timestamp>,
    /// When it was last used, to the minute.
    pub last_used_at: Option<Timestamp>,
}

/// Whether a key opens anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyStatus {
    /// It does.
    Active,
    /// Its time is over.
    Expired,
    /// Somebody has taken it back.
    Revoked,
}

impl KeyStatus {
    /// The word for it.
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
    fn whatever_is_not_quite_a_key_is_refused() {
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
    fn a_key_that_is_printed_by_accident_tells_no_secret() {
        let key = ApiKey::generate().unwrap();
        assert_eq!(format!("{key:?}"), format!("ApiKey({})", key.id()));
    }

    #[test]
    fn hashes_are_equal_if_all_of_them_is() {
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
