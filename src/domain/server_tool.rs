//! Server tools: tools that the model provider runs.

use std::str::FromStr;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::model::Capabilities;

/// A server tool: its versioned type, from which its name follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTool {
    /// The type of its definition, such as `web_search_20260318`.
    r#type: String,
    /// True if the operator selected this version.
    is_dated: bool,
}

/// The callers that a definition may allow: the model itself, and code that it executes. From the
/// documentation of programmatic tool calling.
pub const CALLERS: [&str; 3] = ["direct", "code_execution_20250825", "code_execution_20260120"];

/// A text that is neither the name nor the type of a server tool.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not web_search, web_fetch or code_execution, or a dated type of one of them")]
pub struct NoServerTool(String);

/// The types that a bare name selects: the newest supported ones.
const NEWEST: [&str; 3] = ["web_search_20260318", "web_fetch_20260318", "code_execution_20260521"];
/// The types that a bare name selects for models that cannot filter results with code.
const WITHOUT_FILTERING: [&str; 3] =
    ["web_search_20250305", "web_fetch_20250910", "code_execution_20250825"];

impl ServerTool {
    /// Returns the name that sessions and the model use.
    pub fn name(&self) -> &str {
        name_of(&self.r#type)
    }

    /// Returns the type of the definition for a model: the version that the operator selected, or the
    /// newest one that the model accepts.
    pub fn type_for(&self, model: &Capabilities) -> &str {
        let is_older = !self.is_dated && model.dynamic_filtering == Some(false);
        self.without_filtering().filter(|_| is_older).unwrap_or(&self.r#type)
    }

    /// Returns true if the definition must name the model itself as the only caller. By default, the
    /// newer versions of the web tools are called from code, which the model does not support.
    pub fn needs_direct_caller(&self, model: &Capabilities) -> bool {
        let is_web = matches!(self.name(), "web_search" | "web_fetch");
        let is_newer = self.without_filtering().is_some_and(|older| self.type_for(model) > older);
        is_web && is_newer && model.dynamic_filtering == Some(false)
    }

    fn without_filtering(&self) -> Option<&'static str> {
        WITHOUT_FILTERING.into_iter().find(|older| name_of(older) == self.name())
    }

    /// Returns the options that the definition may have.
    pub fn options(&self) -> &'static [&'static str] {
        match self.name() {
            "web_search" => &[
                "max_uses",
                "allowed_domains",
                "blocked_domains",
                "user_location",
                "allowed_callers",
            ],
            "web_fetch" => &[
                "max_uses",
                "allowed_domains",
                "blocked_domains",
                "citations",
                "max_content_tokens",
                "allowed_callers",
            ],
            _ => &["allowed_callers"],
        }
    }
}

impl FromStr for ServerTool {
    type Err = NoServerTool;

    fn from_str(word: &str) -> Result<Self, NoServerTool> {
        let is_date = |date: &str| date.len() == 8 && date.bytes().all(|it| it.is_ascii_digit());
        let is_ours = |name: &str| NEWEST.iter().any(|newest| name_of(newest) == name);
        let r#type = match word.rsplit_once('_') {
            Some((name, date)) if is_date(date) && is_ours(name) => Some(word),
            _ => NEWEST.into_iter().find(|newest| name_of(newest) == word),
        };
        let r#type = r#type.ok_or_else(|| NoServerTool(word.to_owned()))?.to_owned();
        Ok(Self { is_dated: r#type == word, r#type })
    }
}

/// Returns the names of the tools in an array of definitions that are not server tools.
pub fn names_of_others(definitions: &RawValue) -> Vec<String> {
    #[derive(Deserialize)]
    struct Typed {
        name: String,
        r#type: Option<String>,
    }
    let tools: Vec<Typed> = serde_json::from_str(definitions.get()).unwrap_or_default();
    tools.into_iter().filter(|tool| tool.r#type.is_none()).map(|tool| tool.name).collect()
}

/// Returns true if a server tool among these definitions has enabled citations.
pub fn has_cited_server_tool(definitions: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Cited {
        r#type: Option<String>,
        citations: Option<Enabled>,
    }
    #[derive(Deserialize)]
    struct Enabled {
        enabled: Option<bool>,
    }
    let is_cited = |tool: &Cited| {
        let enabled = tool.citations.as_ref().and_then(|citations| citations.enabled);
        tool.r#type.is_some() && enabled == Some(true)
    };
    let tools: Vec<Cited> = serde_json::from_str(definitions.get()).unwrap_or_default();
    tools.iter().any(is_cited)
}

fn name_of(r#type: &str) -> &str {
    r#type.rsplit_once('_').map_or(r#type, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_selects_a_version_that_the_model_accepts() {
        let tool = |word: &str| word.parse::<ServerTool>().unwrap();
        let cannot = Capabilities { dynamic_filtering: Some(false), ..Capabilities::default() };
        let unknown = Capabilities::default();
        for (word, newer, older) in [
            ("web_search", "web_search_20260318", "web_search_20250305"),
            ("web_fetch", "web_fetch_20260318", "web_fetch_20250910"),
            ("code_execution", "code_execution_20260521", "code_execution_20250825"),
            ("web_search_20260209", "web_search_20260209", "web_search_20260209"),
        ] {
            let types = (tool(word), newer, older);
            assert_eq!((types.0.type_for(&unknown), types.0.type_for(&cannot)), (newer, older));
        }
        for (word, expected) in [
            ("web_search_20260209", true),
            ("web_search_20250305", false),
            ("web_search", false),
            ("code_execution_20260120", false),
        ] {
            assert_eq!(tool(word).needs_direct_caller(&cannot), expected, "{word}");
            assert!(!tool(word).needs_direct_caller(&unknown), "{word}");
        }
    }

    #[test]
    fn a_server_tool_is_selected_by_name_or_type() {
        let tool = |word: &str| word.parse::<ServerTool>().ok().map(|tool| tool.r#type);
        assert_eq!(tool("web_search").as_deref(), Some("web_search_20260318"));
        assert_eq!(tool("web_search_20250305").as_deref(), Some("web_search_20250305"));
        assert_eq!(tool("code_execution").as_deref(), Some("code_execution_20260521"));
        for word in ["", "web", "bash_20250124", "web_search_2025", "web_search_", "_20250305"] {
            assert_eq!(tool(word), None, "{word}");
        }
        let dated: ServerTool = "code_execution_20250825".parse().unwrap();
        assert_eq!(dated.name(), "code_execution");
    }
}
