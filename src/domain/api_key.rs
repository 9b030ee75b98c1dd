//! API keys: credentials whose id begins with `tsk_`.

use jiff::Timestamp;
use serde::Serialize;

use super::credential::{Credential, CredentialId};
use super::ids::{KeyId, TenantId};

pub use super::credential::{BadCredential as BadKey, SecretHash};

/// A complete key with its secret.
pub type ApiKey = Credential<KeyId>;

impl CredentialId for KeyId {
    const PREFIX: &'static str = Self::PREFIX;
    const KIND: &'static str = "key";

    fn generate() -> Self {
        Self::new()
    }
}

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
    fn each_scope_includes_those_before_it() {
        assert!(Scope::Read < Scope::Write);
        for scope in [Scope::Read, Scope::Write] {
            assert_eq!(Scope::parse(scope.as_str()), Some(scope));
        }
        assert_eq!(Scope::parse("admin"), None);
    }
}
