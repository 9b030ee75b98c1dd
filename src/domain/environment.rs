//! Environments of the protocol of Claude Managed Agents: names that sessions refer to.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::ids::EnvironmentId;

/// An environment as stored. It does not change where the tools of a session work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// The id.
    pub id: EnvironmentId,
    /// The name for display.
    pub name: String,
    /// The description.
    pub description: Option<String>,
    /// The client's metadata.
    pub metadata: BTreeMap<String, String>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Time of archiving, if it is archived: new sessions cannot refer to it.
    pub archived_at: Option<Timestamp>,
}
