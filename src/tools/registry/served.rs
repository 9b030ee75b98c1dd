//! The tools of servers, which come and go while the service runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::entry::Entry;
use super::list::List;
use super::{Answer, BadTool, Registry};
use crate::tools::mcp::prefix;
use crate::tools::{ErrorStyle, Tool};

/// The tools of servers.
#[derive(Debug, Default)]
pub(super) struct Served {
    /// The lists by the servers' names; none of a server that has not told one yet.
    pub(super) lists: RwLock<BTreeMap<String, Option<Arc<List>>>>,
    /// Lists that were told, those that change nothing left out.
    pub(super) told: AtomicU64,
}

/// How a list differs from the one before, by the names of the tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListChanges {
    /// Tools that were not there.
    pub added: Vec<String>,
    /// Tools that are there no more.
    pub removed: Vec<String>,
    /// Tools whose definitions are others.
    pub altered: Vec<String>,
}

impl ListChanges {
    /// Whether it differs at all.
    pub fn are_any(&self) -> bool {
        let Self { added, removed, altered } = self;
        [added, removed, altered].iter().any(|names| !names.is_empty())
    }

    fn between(before: &List, after: &List) -> Self {
        let mut changes = Self::default();
        for entry in after.entries() {
            let name = entry.tool.name();
            match before.entry(name) {
                None => changes.added.push(name.to_owned()),
                Some(old) if old.definition.get() != entry.definition.get() => {
                    changes.altered.push(name.to_owned());
                }
                Some(_) => {}
            }
        }
        let is_gone = |name: &&str| after.entry(name).is_none();
        changes.removed = before.names().filter(is_gone).map(Into::into).collect();
        changes
    }
}

impl Served {
    pub(super) fn entry(&self, name: &str) -> Option<Arc<Entry>> {
        self.lists().into_iter().find_map(|list| list.entry(name).map(Arc::clone))
    }

    /// The lists that there are, in the order of the servers' names.
    pub(super) fn lists(&self) -> Vec<Arc<List>> {
        let lists = self.lists.read().unwrap_or_else(PoisonError::into_inner);
        lists.values().flatten().map(Arc::clone).collect()
    }

    /// The server whose tool this would be.
    fn server_of(&self, name: &str) -> Option<String> {
        let lists = self.lists.read().unwrap_or_else(PoisonError::into_inner);
        lists.keys().find(|server| name.starts_with(&prefix(server))).cloned()
    }
}

impl Registry {
    /// Says that there is a server of this name, whose tools will be told.
    pub(in crate::tools) fn expect_server(&self, server: &str) {
        let mut lists = self.served.lists.write().unwrap_or_else(PoisonError::into_inner);
        lists.entry(server.to_owned()).or_default();
    }

    /// Puts these in the place of the tools that a server had, and says how they differ; nothing if
    /// it had none yet. Those of a server that goes away stay until it tells others.
    pub(in crate::tools) fn serve(
        &self,
        server: &str,
        tools: Vec<Arc<dyn Tool>>,
    ) -> Result<Option<ListChanges>, BadTool> {
        let list = Arc::new(List::new(tools)?);
        let mut lists = self.served.lists.write().unwrap_or_else(PoisonError::into_inner);
        let before = lists.insert(server.to_owned(), Some(Arc::clone(&list))).flatten();
        let changes = before.map(|before| ListChanges::between(&before, &list));
        if changes.as_ref().is_none_or(ListChanges::are_any) {
            self.served.told.fetch_add(1, Ordering::Release);
        }
        Ok(changes)
    }

    /// What the model reads of a tool that a server is to have and does not offer now; none of any
    /// other name. Such a tool may be there a moment later, so nobody takes it for one that is
    /// harmless because it does not exist.
    pub fn absent(&self, name: &str) -> Option<String> {
        if self.entry(name).is_some() {
            return None;
        }
        let server = self.served.server_of(name)?;
        Some(ErrorStyle::Plain.told(&format!("the tool server {server} does not offer {name} now")))
    }

    /// The answer to a call of a tool that is not there.
    pub(super) fn missing(&self, name: &str) -> Answer {
        let text = self.absent(name).unwrap_or_else(|| super::unknown_tool(name));
        let (notes, sources) = (Vec::new(), Vec::new());
        Answer { text, is_error: true, error_type: None, notes, sources, sandbox: None }
    }
}

#[cfg(test)]
pub(super) mod tests;
