//! Changes of sessions that a list of sessions shows.

use serde::Serialize;

/// A change of a session that a list of sessions shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ListedChange {
    /// The session was created.
    Created,
    /// A run started, or continued.
    Running,
    /// The active run waits for a decision or a result.
    RequiresAction,
    /// A run settled.
    Finished,
    /// The title, the metadata or another setting changed.
    Updated,
    /// The session was archived.
    Archived,
    /// The session was restored from the archive.
    Restored,
    /// The session was deleted.
    Deleted,
}

impl ListedChange {
    /// Parses the name of a change.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "created" => Self::Created,
            "running" => Self::Running,
            "requires_action" => Self::RequiresAction,
            "finished" => Self::Finished,
            "updated" => Self::Updated,
            "archived" => Self::Archived,
            "restored" => Self::Restored,
            "deleted" => Self::Deleted,
            _ => return None,
        })
    }
}
