//! The tools by their names.

mod call;
mod catalogue;
mod entry;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::{ErrorStyle, Tool};
use crate::domain::tool::{ToolClass, ToolTiming};
use entry::Entry;

pub use call::{Answer, unknown_tool};
pub use catalogue::CatalogEntry;

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

/// The tools of a service, in the order in which the model sees them.
#[derive(Debug, Default)]
pub struct Registry {
    entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
}

impl Registry {
    /// Checks and takes the tools.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Result<Self, BadTool> {
        let mut registry = Self::default();
        for tool in tools {
            registry.add(tool)?;
        }
        Ok(registry)
    }

    fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), BadTool> {
        let name = tool.name().to_owned();
        let entry = Entry::new(tool)?;
        if self.by_name.insert(name.clone(), self.entries.len()).is_some() {
            return Err(BadTool::Repeated(name));
        }
        self.entries.push(entry);
        Ok(())
    }

    /// What a tool may do to the world. A tool that is not known does nothing.
    pub fn class(&self, name: &str) -> ToolClass {
        self.entry(name).map_or(ToolClass::Pure, |entry| entry.tool.class())
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
    pub(in crate::tools) fn tool(&self, name: &str) -> Option<&dyn Tool> {
        self.entry(name).map(|entry| entry.tool.as_ref())
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(name).and_then(|index| self.entries.get(*index))
    }
}
