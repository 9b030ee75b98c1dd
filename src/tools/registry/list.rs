//! A list of tools in the order of the model request.

use std::collections::HashMap;
use std::sync::Arc;

use super::BadTool;
use super::entry::RegisteredTool;
use crate::tools::tool::Tool;

/// An ordered list of tools with an index by name.
#[derive(Debug, Default)]
pub(super) struct List {
    entries: Vec<Arc<RegisteredTool>>,
    by_name: HashMap<String, usize>,
}

impl List {
    /// Validates the definitions of the tools.
    pub(super) fn new(tools: Vec<Arc<dyn Tool>>) -> Result<Self, BadTool> {
        let mut list = Self::default();
        for tool in tools {
            list.add(tool)?;
        }
        Ok(list)
    }

    fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), BadTool> {
        let name = tool.name().to_owned();
        let entry = RegisteredTool::new(tool)?;
        if self.by_name.insert(name.clone(), self.entries.len()).is_some() {
            return Err(BadTool::Repeated(name));
        }
        self.entries.push(Arc::new(entry));
        Ok(())
    }

    /// Returns the tool of this name, if there is one.
    pub(super) fn entry(&self, name: &str) -> Option<&Arc<RegisteredTool>> {
        self.by_name.get(name).and_then(|index| self.entries.get(*index))
    }

    /// Returns the names in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.tool.name())
    }

    /// Returns all tools in order.
    pub(super) fn entries(&self) -> &[Arc<RegisteredTool>] {
        &self.entries
    }
}
