//! Deferred tools: tools whose definitions the model does not see until it has found them with
//! `ToolSearch`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// The name of the tool that finds deferred tools.
pub const TOOL_SEARCH: &str = "ToolSearch";

/// Maximum length of the list of deferred tools in the description of `ToolSearch`, in bytes.
const MAX_LISTING: usize = 4096;
/// The beginning of that list.
const LISTING: &str = "\n\nThe deferred tools:";

/// The deferred tools of a session, pinned with it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeferredTools {
    /// Their names, in the order of the definitions.
    pub names: Vec<String>,
    /// True if the model supports tool search: it gets all definitions, marked as deferred, and its
    /// server inserts those to which a result of `ToolSearch` refers. Otherwise requests have only
    /// the definitions that were found.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_reference: bool,
}

/// The definition of a deferred tool.
#[derive(Debug, Clone)]
pub struct DeferredDefinition {
    /// The name of the tool.
    pub name: String,
    /// The definition.
    pub json: Box<RawValue>,
}

/// The tool definitions of a session.
#[derive(Debug)]
pub struct SplitDefinitions<'a> {
    /// The definitions that every request shows to the model.
    pub loaded: Vec<&'a RawValue>,
    /// The deferred definitions.
    pub deferred: Vec<DeferredDefinition>,
}

/// Returns a definition of `ToolSearch` whose description lists these deferred tools.
pub fn with_listing(tool_search: &RawValue, names: &[String]) -> serde_json::Result<Box<RawValue>> {
    let mut definition: Value = serde_json::from_str(tool_search.get())?;
    if let Some(Value::String(description)) = definition.get_mut("description") {
        if let Some(start) = description.find(LISTING) {
            description.truncate(start);
        }
        description.push_str(LISTING);
        description.push_str(&listing(names));
    }
    to_raw_value(&definition)
}

/// The names by their tool servers, each list truncated to its share of [`MAX_LISTING`]. Servers for which
/// there is no space left are counted.
fn listing(names: &[String]) -> String {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in names {
        let (server, own) = match name.strip_prefix("mcp__").and_then(|it| it.split_once("__")) {
            Some((server, own)) => (server, own),
            None => ("", name.as_str()),
        };
        groups.entry(server).or_default().push(own);
    }
    let share = MAX_LISTING / groups.len().max(1);
    let mut text = String::new();
    let count = groups.len();
    for (index, (server, names)) in groups.into_iter().enumerate() {
        if text.len() >= MAX_LISTING {
            let _ = write!(text, "\n- the tools of {} more servers", count - index);
            break;
        }
        text.push_str("\n-");
        if !server.is_empty() {
            let _ = write!(text, " mcp__{server}__*:");
        }
        let (start, mut shown) = (text.len(), 0);
        for name in &names {
            if text.len() - start + name.len() > share {
                break;
            }
            text.push_str(if shown == 0 { " " } else { ", " });
            text.push_str(name);
            shown += 1;
        }
        match names.len() - shown {
            0 => {}
            1 if shown == 0 => text.push_str(" 1 tool"),
            more if shown == 0 => _ = write!(text, " {more} tools"),
            more => _ = write!(text, " and {more} more"),
        }
    }
    text
}

#[cfg(test)]
mod tests;
