//! Browser tokens: credentials for the browser of an end user, whose id begins with `tbt_`.

use jiff::Timestamp;
use serde::Serialize;

use super::credential::{Credential, CredentialId};
use super::ids::{BrowserTokenId, SessionId};

/// A complete browser token with its secret.
pub type BrowserToken = Credential<BrowserTokenId>;

impl CredentialId for BrowserTokenId {
    const PREFIX: &'static str = Self::PREFIX;
    const KIND: &'static str = "browser token";

    fn generate() -> Self {
        Self::new()
    }
}

/// A permission of a browser token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BrowserScope {
    /// Read sessions, messages, runs and events, and open streams.
    Read,
    /// Post messages and results of client tools.
    Post,
    /// Allow and deny tool calls.
    Decide,
    /// Cancel runs.
    Cancel,
}

impl BrowserScope {
    /// All scopes.
    pub const ALL: [Self; 4] = [Self::Read, Self::Post, Self::Decide, Self::Cancel];

    /// The scope as text, on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Post => "post",
            Self::Decide => "decide",
            Self::Cancel => "cancel",
        }
    }

    /// Parses the text of a scope.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word)
    }
}

/// The sessions for which a browser token is valid. Each includes the sessions of its sub-agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BrowserTarget {
    /// One session.
    Session(SessionId),
    /// All sessions of a user.
    User(String),
}

/// The permissions of a browser token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserGrant {
    /// The sessions.
    pub target: BrowserTarget,
    /// What the browser may do with them; sorted.
    pub scopes: Vec<BrowserScope>,
}

impl BrowserGrant {
    /// Returns true if the token has this scope.
    pub fn allows(&self, scope: BrowserScope) -> bool {
        self.scopes.contains(&scope)
    }
}

/// A browser token as stored, without its secret.
#[derive(Debug, Clone)]
pub struct BrowserTokenRecord {
    /// The id.
    pub id: BrowserTokenId,
    /// The permissions.
    pub grant: BrowserGrant,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of expiry.
    pub expires_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_survives_its_text() {
        for scope in BrowserScope::ALL {
            assert_eq!(BrowserScope::parse(scope.as_str()), Some(scope));
        }
        assert_eq!(BrowserScope::parse("write"), None);
    }
}
