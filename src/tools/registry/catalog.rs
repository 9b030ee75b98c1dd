//! Tool definitions for the model, and the tool catalog for people.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::Registry;
use super::entry::RegisteredTool;
use crate::domain::tool::{ToolClass, ToolTiming};

/// A tool of the catalog.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct CatalogEntry {
    /// The name that the model uses.
    pub name: String,
    /// The description that the model reads: the purpose of the tool, its result and its limits.
    pub description: String,
    /// The JSON Schema of its input.
    #[schema(value_type = Object)]
    pub input_schema: Value,
    /// The class of side effects that a call may have.
    pub class: ToolClass,
    /// The usual duration of a call.
    pub timing: ToolTiming,
    /// The maximum duration of a call in milliseconds, unless its input sets another.
    pub deadline_ms: u64,
    /// True if a call may run concurrently with other calls of the same round.
    pub parallel: bool,
}

impl Registry {
    /// Returns the tool definitions of a session in their fixed order: all tools, or those in
    /// `only`. Returns the first unknown name as the error.
    pub fn definitions(&self, only: Option<&[String]>) -> Result<Box<RawValue>, String> {
        // Read once, because a server can change its tool list at any time.
        let entries = self.entries();
        let is_known = |name: &&String| entries.iter().any(|entry| entry.tool.name() == *name);
        if let Some(unknown) = only.into_iter().flatten().find(|name| !is_known(name)) {
            return Err(unknown.clone());
        }
        let wanted = |entry: &&Arc<RegisteredTool>| {
            only.is_none_or(|names| names.iter().any(|name| name == entry.tool.name()))
        };
        let definitions: Vec<&RawValue> =
            entries.iter().filter(wanted).map(|entry| entry.definition.as_ref()).collect();
        to_raw_value(&definitions).map_err(|error| error.to_string())
    }

    /// Returns the catalog of all tools.
    pub fn catalog(&self) -> Vec<CatalogEntry> {
        self.entries()
            .iter()
            .map(|entry| &entry.tool)
            .map(|tool| CatalogEntry {
                name: tool.name().to_owned(),
                description: tool.description().to_owned(),
                input_schema: tool.input_schema(),
                class: tool.class(),
                timing: tool.timing(),
                deadline_ms: millis(tool.deadline(RawValue::NULL)),
                parallel: tool.runs_in_parallel(),
            })
            .collect()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
