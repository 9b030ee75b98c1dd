//! What a step leaves in the session beside messages and events. It is stored in the step that
//! tells of it, so that neither is ever there without the other.

use std::collections::BTreeMap;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::context::Compaction;
use super::permission::PermissionMode;
use super::sent::SentChange;

/// Something to remember.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The model has seen a file as it is now.
    Seen {
        /// Relative to the workspace, in its plainest form.
        path: String,
        /// SHA-256 of the whole file.
        hash: Vec<u8>,
    },
    /// The model's list of its work, whole.
    Todos(Vec<Todo>),
    /// The permission mode from now on.
    Mode(PermissionMode),
    /// What is sent otherwise than it is stored from now on.
    Sent(SentChange),
    /// The tool lists that have been announced to the model.
    AnnouncedToolLists(AnnouncedToolLists),
    /// What is sent in place of the beginning of the history from now on.
    Compacted(Compaction),
}

/// For each tool server, by name, a hash of the announced differences from the session's tools.
pub type AnnouncedToolLists = BTreeMap<String, String>;

/// One item of a todo list.
#[derive(
    Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema, utoipa::ToSchema,
)]
#[serde(deny_unknown_fields)]
pub struct Todo {
    /// The model's own id of it.
    pub id: String,
    /// What is to be done.
    pub content: String,
    /// How far it is.
    // Else each word is a schema of its own, and a wrong word is not told which ones there are.
    #[schemars(schema_with = "statuses")]
    pub status: TodoStatus,
}

fn statuses(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["pending", "in_progress", "completed"] })
}

/// How far an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// In work.
    InProgress,
    /// Done.
    Completed,
}
