//! The tools of MCP servers. They can change while the service runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::entry::RegisteredTool;
use super::list::List;
use super::{BadTool, CallOutcome, Registry};
use crate::tools::error::ErrorStyle;
use crate::tools::mcp::prefix;
use crate::tools::tool::Tool;

/// The tool lists of MCP servers.
#[derive(Debug, Default)]
pub(super) struct Served {
    /// The lists by server name; `None` for a server that has not sent one yet.
    pub(super) lists: RwLock<BTreeMap<String, Option<Arc<List>>>>,
    /// Number of received lists that changed something.
    pub(super) updates: AtomicU64,
}

/// The differences between two tool lists, by tool name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListChanges {
    /// Tools that only the new list has.
    pub added: Vec<String>,
    /// Tools that only the old list has.
    pub removed: Vec<String>,
    /// Tools whose definitions differ.
    pub altered: Vec<String>,
}

impl ListChanges {
    /// Returns `true` if the lists differ.
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
    pub(super) fn entry(&self, name: &str) -> Option<Arc<RegisteredTool>> {
        self.lists().into_iter().find_map(|list| list.entry(name).map(Arc::clone))
    }

    /// Returns the known lists in the order of the server names.
    pub(super) fn lists(&self) -> Vec<Arc<List>> {
        let lists = self.lists.read().unwrap_or_else(PoisonError::into_inner);
        lists.values().flatten().map(Arc::clone).collect()
    }

    /// Returns the configured server to which this tool name belongs.
    fn server_of(&self, name: &str) -> Option<String> {
        let lists = self.lists.read().unwrap_or_else(PoisonError::into_inner);
        lists.keys().find(|server| name.starts_with(&prefix(server))).cloned()
    }
}

impl Registry {
    /// Registers the name of a server before its tool list is known.
    pub fn expect_server(&self, server: &str) {
        let mut lists = self.served.lists.write().unwrap_or_else(PoisonError::into_inner);
        lists.entry(server.to_owned()).or_default();
    }

    /// Replaces the tools of a server. Returns the differences, or `None` for its first list.
    /// The tools of a disconnected server stay until it sends a new list.
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
            self.served.updates.fetch_add(1, Ordering::Release);
        }
        Ok(changes)
    }

    /// Returns the error text for a tool that belongs to a configured server but is not
    /// available now, or `None` for any other name. Such a tool can become available at any
    /// time, so it is not treated as a nonexistent tool, whose calls are harmless.
    pub fn unavailable_reason(&self, name: &str) -> Option<String> {
        if self.entry(name).is_some() {
            return None;
        }
        let server = self.served.server_of(name)?;
        Some(
            ErrorStyle::Plain
                .format(&format!("the tool server {server} does not offer {name} now")),
        )
    }

    /// Returns the result of a call of a tool that is not available.
    pub(super) fn unavailable(&self, name: &str) -> CallOutcome {
        let text = self.unavailable_reason(name).unwrap_or_else(|| super::unknown_tool(name));
        let (state_changes, sources) = (Vec::new(), Vec::new());
        CallOutcome {
            text,
            images: Vec::new(),
            is_error: true,
            error_type: None,
            state_changes,
            sources,
            sandbox: None,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
