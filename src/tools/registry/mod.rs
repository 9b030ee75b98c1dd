//! The registry of all tools, by name.

mod call;
mod catalog;
mod entry;
mod list;
mod list_difference;
mod run_limit;
mod served;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::value::RawValue;

use super::builtin::ToolSearch;
use super::error::ErrorStyle;
use super::tool::Tool;
use super::typed::Typed;
use crate::domain::provenance::ResultOrigin;
use crate::domain::tool::{ToolClass, ToolTiming};
use entry::RegisteredTool;
use list::List;
use served::Served;

pub use call::{CallOutcome, unknown_tool};
pub use catalog::CatalogEntry;
pub use list_difference::ServerDifference;
pub use served::ListChanges;

/// An error in the definition of a tool.
#[derive(Debug, thiserror::Error)]
pub enum BadTool {
    /// The model API does not permit the name.
    #[error("the tool name {0:?} is not 1 to 64 of a-z, A-Z, 0-9, _ and -")]
    Name(String),
    /// Two tools have the same name.
    #[error("two tools have the name {0}")]
    Repeated(String),
    /// The input schema is not valid.
    #[error("the input schema of {name} is not usable: {cause}")]
    Schema {
        /// The name of the tool.
        name: String,
        /// The cause.
        cause: String,
    },
}

impl BadTool {
    /// Returns `true` if the name is invalid.
    pub const fn is_name(&self) -> bool {
        match self {
            Self::Name(_) | Self::Repeated(_) => true,
            Self::Schema { .. } => false,
        }
    }
}

/// The tools of the service in the order of the model request: built-in tools, then those of MCP
/// servers.
#[derive(Debug, Default)]
pub struct Registry {
    own: List,
    /// The tools that sessions do not name: the service adds them where they are needed.
    added: List,
    served: Served,
}

impl Registry {
    /// Creates a registry with these built-in tools.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Result<Self, BadTool> {
        let own = List::new(tools)?;
        let added = List::new(vec![Arc::new(Typed(ToolSearch))])?;
        if let Some(name) = added.names().find(|name| own.entry(name).is_some()) {
            return Err(BadTool::Repeated(name.to_owned()));
        }
        Ok(Self { own, added, served: Served::default() })
    }

    /// Returns `true` if a tool of this name is available now.
    pub fn has(&self, name: &str) -> bool {
        self.entry(name).is_some()
    }

    /// Returns `true` if a tool belongs to an MCP server.
    pub fn is_served(&self, name: &str) -> bool {
        self.of_service(name).is_none() && self.served.entry(name).is_some()
    }

    /// Returns the class of a tool. An unknown tool is [`ToolClass::Pure`], except if its name
    /// belongs to a configured server, which could offer the tool again.
    pub fn class(&self, name: &str) -> ToolClass {
        match self.entry(name) {
            Some(entry) => entry.tool.class(),
            None if self.unavailable_reason(name).is_some() => ToolClass::Effect,
            None => ToolClass::Pure,
        }
    }

    /// Returns the usual duration of a tool, or `None` if it is unknown.
    pub fn timing(&self, name: &str) -> Option<ToolTiming> {
        self.entry(name).map(|entry| entry.tool.timing())
    }

    /// Returns `true` if calls of a tool may run concurrently with other calls of the same
    /// round. Only tools without side effects may. Unknown tools may too, because their calls
    /// do nothing.
    pub fn runs_in_parallel(&self, name: &str) -> bool {
        self.class(name) == ToolClass::Pure
            && self.entry(name).is_none_or(|entry| entry.tool.runs_in_parallel())
    }

    /// Returns `true` if calls of a tool have no effects, use nothing but this machine and the
    /// database, and usually take milliseconds.
    pub fn is_quick(&self, name: &str) -> bool {
        let Some(tool) = self.of_service(name).map(|entry| &entry.tool) else { return false };
        tool.class() == ToolClass::Pure
            && tool.runs_in_parallel()
            && matches!(tool.timing(), ToolTiming::Immediate | ToolTiming::Fast)
    }

    /// Returns `true` if a tool runs commands, which can write any file of the workspace.
    pub fn runs_commands(&self, name: &str) -> bool {
        self.entry(name).is_some_and(|entry| entry.tool.sandbox().is_some())
    }

    /// Returns the URL that a call requests, if the URL could originate from the model.
    pub fn requested_url(&self, name: &str, input: &RawValue) -> Option<String> {
        self.entry(name)?.tool.requested_url(input)
    }

    /// Returns the origin of the text in the result of a call, or `None` if the tool is unknown.
    pub fn result_origin(&self, name: &str, input: &RawValue) -> Option<ResultOrigin> {
        Some(self.entry(name)?.tool.result_origin(input))
    }

    /// Formats an error text in the style of the tool.
    pub fn error_text(&self, name: &str, text: &str) -> String {
        let style = self.entry(name).map(|entry| entry.tool.error_style());
        style.unwrap_or(ErrorStyle::Plain).format(text)
    }

    /// Returns the validation errors of an input: JSON pointer and message.
    pub fn input_problems(&self, name: &str, input: &RawValue) -> Vec<(String, String)> {
        let unknown = || vec![(String::new(), format!("there is no tool {name}"))];
        self.entry(name).map_or_else(unknown, |entry| entry.problems(input))
    }

    /// Returns the tool of this name, if there is one.
    pub(in crate::tools) fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.entry(name).map(|entry| Arc::clone(&entry.tool))
    }

    fn entry(&self, name: &str) -> Option<Arc<RegisteredTool>> {
        self.of_service(name).map(Arc::clone).or_else(|| self.served.entry(name))
    }

    /// Returns a tool that belongs to no server.
    fn of_service(&self, name: &str) -> Option<&Arc<RegisteredTool>> {
        self.own.entry(name).or_else(|| self.added.entry(name))
    }

    /// Returns the definition of a tool that the service adds to sessions.
    pub fn added_definition(&self, name: &str) -> Option<&RawValue> {
        self.added.entry(name).map(|entry| entry.definition.as_ref())
    }

    /// Returns all tools that sessions may name, in order.
    fn entries(&self) -> Vec<Arc<RegisteredTool>> {
        let mut entries = self.own.entries().to_vec();
        entries.extend(self.served.lists().iter().flat_map(|list| list.entries().to_vec()));
        entries
    }
}
