//! State changes: session state that a step changes besides messages and events. A change is stored
//! in the same transaction as the event that reports it.

use std::collections::BTreeMap;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::container::Container;
use super::context::Compaction;
use super::permission::PermissionMode;
use super::sent_history::SentHistoryChange;

/// A change of session state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateChange {
    /// The model has read the current content of a file.
    FileRead {
        /// Path relative to the workspace, normalized.
        path: String,
        /// SHA-256 of the complete file.
        hash: Vec<u8>,
    },
    /// The model's complete todo list.
    Todos(Vec<Todo>),
    /// The new permission mode.
    PermissionMode(PermissionMode),
    /// A new difference between the stored history and the history that the model receives.
    SentHistory(SentHistoryChange),
    /// The tool lists that have been announced to the model.
    AnnouncedToolLists(AnnouncedToolLists),
    /// The new summary that replaces the beginning of the history in requests.
    Compacted(Compaction),
    /// The container in which the model's server runs code; none if it has none any more.
    Container(Option<Container>),
}

/// For each tool server, by name, a hash of the announced differences from the session's tools.
pub type AnnouncedToolLists = BTreeMap<String, String>;

/// One item of a todo list.
#[derive(
    Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema, utoipa::ToSchema,
)]
#[serde(deny_unknown_fields)]
pub struct Todo {
    /// The model's id of the item.
    pub id: String,
    /// The task.
    pub content: String,
    /// The progress.
    // An inline enum, because a schema with one constant per variant does not list the allowed
    // values in the validation error.
    #[schemars(schema_with = "statuses")]
    pub status: TodoStatus,
}

fn statuses(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["pending", "in_progress", "completed"] })
}

/// The progress of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not started.
    Pending,
    /// In progress.
    InProgress,
    /// Finished.
    Completed,
}
