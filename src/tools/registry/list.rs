//! A list of tools, in the order in which the model sees them.

use std::collections::HashMap;
use std::sync::Arc;

use super::BadTool;
use super::entry::Entry;
use crate::tools::Tool;

/// Tools by their names.
#[derive(Debug, Default)]
pub(super) struct List {
    entries: Vec<Arc<Entry>>,
    by_name: HashMap<String, usize>,
}

impl List {
    /// Checks and takes the tools.
    pub(super) fn new(tools: Vec<Arc<dyn Tool>>) -> Result<Self, BadTool> {
        let mut list = Self::default();
        for tool in tools {
            list.add(tool)?;
        }
        Ok(list)
    }

    fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), BadTool> {
        let name = tool.name().to_owned();
        let entry = Entry::new(tool)?;
        if self.by_name.insert(name.clone(), self.entries.len()).is_some() {
            return Err(BadTool::Repeated(name));
        }
        self.entries.push(Arc::new(entry));
        Ok(())
    }

    /// The tool of this name, if there is one.
    pub(super) fn entry(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_name.get(name).and_then(|index| self.entries.get(*index))
    }

    /// Their names, in their order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.tool.name())
    }

    /// All of them.
    pub(super) fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }
}
