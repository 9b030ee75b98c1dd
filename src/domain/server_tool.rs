//! Server tools: tools that the model provider runs.

use std::str::FromStr;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A server tool: its versioned type, from which its name follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTool {
    /// The type of its definition, such as `web_search_20260318`.
    pub r#type: String,
}

/// A text that is neither the name nor the type of a server tool.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not web_search, web_fetch or code_execution, or a dated type of one of them")]
pub struct NoServerTool(String);

/// The types that a bare name selects: the newest supported ones.
const NEWEST: [&str; 3] = ["web_search_20260318", "web_fetch_20260318", "code_execution_20260521"];

impl ServerTool {
    /// Returns the name that sessions and the model use.
    pub fn name(&self) -> &str {
        name_of(&self.r#type)
    }

    /// Returns the options that the definition may have.
    pub fn options(&self) -> &'static [&'static str] {
        match self.name() {
            "web_search" => &["max_uses", "allowed_domains", "blocked_domains", "user_location"],
            "web_fetch" => &[
                "max_uses",
                "allowed_domains",
                "blocked_domains",
                "citations",
                "max_content_tokens",
            ],
            _ => &[],
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
        Ok(Self { r#type })
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

fn name_of(r#type: &str) -> &str {
    r#type.rsplit_once('_').map_or(r#type, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

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
