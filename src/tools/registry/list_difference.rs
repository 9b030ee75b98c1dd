//! Differences between the tools that a session has stored and the tools that MCP servers offer
//! now.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::list::List;
use super::{ListChanges, Registry};
use crate::domain::request::hexadecimal;
use crate::domain::session::Settings;
use crate::domain::tool::defined_names;
use crate::tools::mcp::prefix;

/// The difference between a server's tool list and the stored tools of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerDifference {
    /// The server's name.
    pub server: String,
    /// The tools that differ.
    pub changes: ListChanges,
    /// The hash that identifies this difference; `None` if the lists are equal.
    pub hash: Option<String>,
}

/// A tool definition in a model request.
#[derive(Debug, PartialEq, Deserialize)]
struct Definition {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    input_schema: Value,
}

impl Registry {
    /// Returns the number of tool list updates. If it is unchanged, no list has changed.
    pub fn list_updates(&self) -> u64 {
        self.served.updates.load(Ordering::Acquire)
    }

    /// Returns the names of all tools of those servers that have a tool in these definitions.
    pub fn tools_of_same_servers(&self, definitions: &RawValue) -> Vec<String> {
        let lists = self.served.lists.read().unwrap_or_else(PoisonError::into_inner);
        if lists.is_empty() {
            return Vec::new();
        }
        let names = defined_names(definitions);
        let listed = lists.iter().filter_map(|(server, list)| Some((server, list.as_ref()?)));
        let of_same_servers = listed.filter(|(server, _)| {
            let prefix = prefix(server);
            names.iter().any(|name| name.starts_with(&prefix))
        });
        of_same_servers
            .flat_map(|(_, list)| list.names().map(str::to_owned).collect::<Vec<_>>())
            .collect()
    }

    /// Returns the difference for each server with a known tool list. Omits servers of which
    /// the session has no tools.
    pub fn differences(&self, settings: &Settings) -> Vec<ServerDifference> {
        let lists = self.served.lists.read().unwrap_or_else(PoisonError::into_inner);
        let pinned: Vec<Definition> = serde_json::from_str::<Vec<Value>>(settings.tools.get())
            .unwrap_or_default()
            .into_iter()
            .filter_map(|definition| serde_json::from_value(definition).ok())
            .filter(|definition: &Definition| !settings.client_tools.contains(&definition.name))
            .collect();
        let listed = lists.iter().filter_map(|(server, list)| Some((server, list.as_ref()?)));
        let differing = listed.filter_map(|(server, list)| {
            let prefix = prefix(server);
            let of_server: Vec<&Definition> =
                pinned.iter().filter(|tool| tool.name.starts_with(&prefix)).collect();
            if of_server.is_empty() {
                return None;
            }
            Some(difference(server, &of_server, list, &settings.offered_tools))
        });
        differing.collect()
    }
}

fn difference(
    server: &str,
    pinned: &[&Definition],
    list: &List,
    offered: &[String],
) -> ServerDifference {
    let is_new = |name: &&str| !offered.iter().any(|known| known == name);
    let mut changes = ListChanges {
        added: list.names().filter(is_new).map(str::to_owned).collect(),
        ..ListChanges::default()
    };
    let mut hash = Sha256::new();
    for tool in pinned {
        let Some(entry) = list.entry(&tool.name) else {
            changes.removed.push(tool.name.clone());
            continue;
        };
        let now = entry.definition.get();
        if serde_json::from_str::<Definition>(now).is_ok_and(|now| now != **tool) {
            changes.altered.push(tool.name.clone());
            hash.update(now);
        }
    }
    let names = [&changes.added, &changes.removed, &changes.altered];
    hash.update(format!("{names:?}"));
    let hash = changes.are_any().then(|| hexadecimal(&hash.finalize()));
    ServerDifference { server: server.to_owned(), changes, hash }
}

#[cfg(test)]
mod tests;
