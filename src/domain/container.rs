//! Containers in which a model's server runs code (code execution, and web tools that filter their
//! results with code).
//!
//! A container belongs to one session. A fork begins without one: the files of a container may be
//! newer than the messages that the fork shares.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Maximum length of an id in bytes.
const MAX_ID: usize = 256;

/// A container, as the model's server reported it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// The server's id.
    pub id: String,
    /// The time at which the server deletes the container, unless a request uses it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl Container {
    /// Returns true if the id can be stored and sent back.
    pub fn is_valid(&self) -> bool {
        !self.id.is_empty() && self.id.len() <= MAX_ID && !self.id.contains(char::is_control)
    }

    /// Returns true if the server has deleted the container, unless another request has used it.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}
