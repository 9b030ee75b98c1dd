//! The tools by their names.

mod call;
mod catalogue;
mod entry;
mod frozen;
mod list;
mod served;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::value::RawValue;

use super::{ErrorStyle, Tool};
use crate::domain::tool::{ToolClass, ToolTiming};
use entry::Entry;
use list::List;
use served::Served;

pub use call::{Answer, unknown_tool};
pub use catalogue::CatalogEntry;
pub use frozen::ServerDifference;
pub use served::ListChanges;

/// A tool that cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum BadTool {
    /// The model refuses such a name.
    #[error("the tool name {0:?} is not 1 to 64 of a-z, A-Z, 0-9, _ and -")]
    Name(String),
    /// Two tools of one name.
    #[error("there are two tools of the name {0}")]
    Repeated(String),
    /// The schema is not one.
    #[error("the input schema of {name} is not usable: {cause}")]
    Schema {
        /// The tool.
        name: String,
        /// What is wrong with it.
        cause: String,
    },
}

impl BadTool {
    /// Whether it is the name that is wrong.
    pub const fn is_name(&self) -> bool {
        match self {
            Self::Name(_) | Self::Repeated(_) => true,
            Self::Schema { .. } => false,
        }
    }
}

/// The tools of a service, in the order in which the model sees them: its own, then those of
/// servers.
#[derive(Debug, Default)]
pub struct Registry {
    own: List,
    served: Served,
}

impl Registry {
    /// Checks and takes the tools.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Result<Self, BadTool> {
        Ok(Self { own: List::new(tools)?, served: Served::default() })
    }

    /// Whether there is a tool of this name now.
    pub fn has(&self, name: &str) -> bool {
        self.entry(name).is_some()
    }

    /// What a tool may do to the world. A tool that is not known does nothing, unless a server may
    /// come back with it.
    pub fn class(&self, name: &str) -> ToolClass {
        match self.entry(name) {
            Some(entry) => entry.tool.class(),
            None if self.absent(name).is_some() => ToolClass::Effect,
            None => ToolClass::Pure,
        }
    }

    /// How long a tool usually takes; none for one that is not known.
    pub fn timing(&self, name: &str) -> Option<ToolTiming> {
        self.entry(name).map(|entry| entry.tool.timing())
    }

    /// Whether calls of a tool may run beside others of their round, which only those may that
    /// change nothing. A tool that is not known is in nobody's way.
    pub fn runs_in_parallel(&self, name: &str) -> bool {
        self.class(name) == ToolClass::Pure
            && self.entry(name).is_none_or(|entry| entry.tool.runs_in_parallel())
    }

    /// The address that a call visits, if the model may have made it up.
    pub fn visits(&self, name: &str, input: &RawValue) -> Option<String> {
        self.entry(name)?.tool.visits(input)
    }

    /// What the model reads of a failure, in the style of a tool.
    pub fn error_text(&self, name: &str, text: &str) -> String {
        let style = self.entry(name).map(|entry| entry.tool.error_style());
        style.unwrap_or(ErrorStyle::Plain).told(text)
    }

    /// What is wrong with an input, and where, as a pointer into it; nothing for one that fits.
    pub fn input_problems(&self, name: &str, input: &RawValue) -> Vec<(String, String)> {
        let unknown = || vec![(String::new(), format!("there is no {name}"))];
        self.entry(name).map_or_else(unknown, |entry| entry.problems(input))
    }

    /// The tool of this name, if there is one.
    pub(in crate::tools) fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.entry(name).map(|entry| Arc::clone(&entry.tool))
    }

    fn entry(&self, name: &str) -> Option<Arc<Entry>> {
        self.own.entry(name).map(Arc::clone).or_else(|| self.served.entry(name))
    }

    /// All of them.
    fn entries(&self) -> Vec<Arc<Entry>> {
        let mut entries = self.own.entries().to_vec();
        entries.extend(self.served.lists().iter().flat_map(|list| list.entries().to_vec()));
        entries
    }
}
