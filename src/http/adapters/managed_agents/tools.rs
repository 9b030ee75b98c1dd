//! Toolsets of the protocol, and the tools and permission rules of the service that they stand for.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::unsupported::refuse;
use crate::domain::permission::{Permission, Rule};
use crate::http::error::ApiError;
use crate::service::Service;
use crate::service::agents::is_available;

/// The tools of the toolset by their names in this protocol, with the tools of the service in the order
/// of preference.
const TOOLSET: [(&str, &[&str]); 8] = [
    ("bash", &["Bash"]),
    ("edit", &["Edit"]),
    ("read", &["Read"]),
    ("write", &["Write"]),
    ("glob", &["Glob"]),
    ("grep", &["Grep"]),
    ("web_fetch", &["WebFetch", "web_fetch"]),
    ("web_search", &["WebSearch", "web_search"]),
];

/// The type of the toolset.
const TOOLSET_TYPE: &str = "agent_toolset_20260401";
/// The name by which an agent selects any other tool of the service.
const OWN_SERVER: &str = "twostep";

/// The name of a tool in this protocol.
pub(super) fn sdk_name(name: &str) -> &str {
    let found = TOOLSET.iter().find(|(_, own)| own.contains(&name));
    found.map_or(name, |&(sdk, _)| sdk)
}

/// An entry of `tools`.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
pub(super) enum ToolEntry {
    #[serde(rename = "agent_toolset_20260401")]
    Toolset {
        #[serde(default)]
        configs: Vec<ToolConfig>,
        #[serde(default)]
        default_config: Option<DefaultConfig>,
    },
    #[serde(rename = "mcp_toolset")]
    Mcp {
        mcp_server_name: String,
        #[serde(default)]
        configs: Vec<ToolConfig>,
        #[serde(default)]
        default_config: Option<DefaultConfig>,
    },
    #[serde(rename = "custom")]
    Custom { name: String, description: String, input_schema: Value },
}

/// The configuration of one tool.
#[derive(Debug, Deserialize)]
pub(super) struct ToolConfig {
    name: String,
    enabled: Option<bool>,
    permission_policy: Option<Policy>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// The configuration of all tools that have none of their own.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DefaultConfig {
    enabled: Option<bool>,
    permission_policy: Option<Policy>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Policy {
    AlwaysAllow,
    AlwaysAsk,
    /// The permission mode decides.
    Auto,
}

/// Tools and rules in the form of a session's settings.
#[derive(Debug, Default)]
pub(super) struct Selection {
    pub(super) tools: Vec<Value>,
    pub(super) permissions: Vec<Value>,
}

impl Selection {
    /// The tools of these entries.
    pub(super) fn of(service: &Service, entries: Vec<ToolEntry>) -> Result<Self, ApiError> {
        let mut selection = Self::default();
        for (index, entry) in entries.into_iter().enumerate() {
            let pointer = format!("/tools/{index}");
            match entry {
                ToolEntry::Toolset { configs, default_config } => {
                    let default = default_config.unwrap_or_default();
                    selection.add_toolset(service, &configs, &default, &pointer)?;
                }
                ToolEntry::Mcp { mcp_server_name, configs, default_config } => {
                    if mcp_server_name != OWN_SERVER {
                        let message = format!(
                            "is not `{OWN_SERVER}`: the operator configures MCP servers, whose tools \
                             `{OWN_SERVER}` has by their names"
                        );
                        return Err(ApiError::field(
                            &format!("{pointer}/mcp_server_name"),
                            message,
                        ));
                    }
                    let default = default_config.unwrap_or_default();
                    selection.add_named(&configs, &default, &pointer)?;
                }
                ToolEntry::Custom { name, description, input_schema } => {
                    selection.tools.push(json!({
                        "name": name, "description": description, "input_schema": input_schema,
                        "client": true,
                    }));
                }
            }
        }
        Ok(selection)
    }

    /// Adds the tools of the toolset that the service has. A tool that the client enables by name must
    /// exist.
    fn add_toolset(
        &mut self,
        service: &Service,
        configs: &[ToolConfig],
        default: &DefaultConfig,
        pointer: &str,
    ) -> Result<(), ApiError> {
        for (index, config) in configs.iter().enumerate() {
            let pointer = format!("{pointer}/configs/{index}");
            config.check_options(&pointer)?;
            if !TOOLSET.iter().any(|(name, _)| *name == config.name) {
                let message = format!("is not a tool of {TOOLSET_TYPE}");
                return Err(ApiError::field(&format!("{pointer}/name"), message));
            }
        }
        for (sdk, own) in TOOLSET {
            let config = configs.iter().enumerate().find(|(_, config)| config.name == sdk);
            let is_enabled = config.and_then(|(_, config)| config.enabled);
            if !is_enabled.or(default.enabled).unwrap_or(true) {
                continue;
            }
            let Some(name) = own.iter().find(|name| is_available(service, name)) else {
                match config {
                    Some((index, config)) if config.enabled == Some(true) => {
                        let pointer = format!("{pointer}/configs/{index}/name");
                        return Err(ApiError::field(&pointer, "is not a tool of this service"));
                    }
                    _ => continue,
                }
            };
            let policy = config.and_then(|(_, config)| config.permission_policy);
            self.add(name, policy.or(default.permission_policy).unwrap_or(Policy::AlwaysAllow));
        }
        Ok(())
    }

    /// Adds tools of the service by their names.
    fn add_named(
        &mut self,
        configs: &[ToolConfig],
        default: &DefaultConfig,
        pointer: &str,
    ) -> Result<(), ApiError> {
        if default.enabled == Some(true) {
            let message = "is not supported: `configs` names the tools, each with `enabled`";
            return Err(ApiError::field(&format!("{pointer}/default_config/enabled"), message));
        }
        for (index, config) in configs.iter().enumerate() {
            config.check_options(&format!("{pointer}/configs/{index}"))?;
            if config.enabled.unwrap_or(true) {
                let policy = config.permission_policy.or(default.permission_policy);
                self.add(&config.name, policy.unwrap_or(Policy::Auto));
            }
        }
        Ok(())
    }

    fn add(&mut self, name: &str, policy: Policy) {
        self.tools.push(name.into());
        let decision = match policy {
            Policy::AlwaysAllow => "allow",
            Policy::AlwaysAsk => "ask",
            Policy::Auto => return,
        };
        self.permissions.push(json!({ "tool": name, "decision": decision }));
    }
}

impl ToolConfig {
    /// Refuses options of single tools.
    fn check_options(&self, pointer: &str) -> Result<(), ApiError> {
        for (name, value) in self.others.iter().filter(|(name, _)| *name != "type") {
            let reason = "the operator configures the tools";
            refuse(Some(value), &format!("{pointer}/{name}"), reason)?;
        }
        Ok(())
    }
}

/// The tools of an agent or a session as entries of `tools`: names of tools of the service, and
/// definitions of tools that the client runs.
pub(super) fn entries(names: &[String], clients: &[Value], rules: &[Rule]) -> Vec<Value> {
    let (mut toolset, mut others) = (Vec::new(), Vec::new());
    for name in names {
        let is_of_toolset = TOOLSET.iter().any(|(_, own)| own.contains(&name.as_str()));
        let mut config = Map::new();
        let shown = if is_of_toolset { sdk_name(name) } else { name.as_str() };
        config.insert("name".to_owned(), shown.into());
        config.insert("enabled".to_owned(), true.into());
        config.insert("permission_policy".to_owned(), policy(name, rules));
        if is_of_toolset {
            config.insert("type".to_owned(), shown.into());
            if shown == "web_fetch" {
                config.insert("url_sources".to_owned(), Value::Null);
            }
            toolset.push(Value::Object(config));
        } else {
            others.push(Value::Object(config));
        }
    }
    let default = json!({ "enabled": false, "permission_policy": { "type": "auto" } });
    let mut entries = Vec::new();
    if !toolset.is_empty() {
        entries
            .push(json!({ "type": TOOLSET_TYPE, "default_config": default, "configs": toolset }));
    }
    if !others.is_empty() {
        entries.push(json!({
            "type": "mcp_toolset", "mcp_server_name": OWN_SERVER, "default_config": default,
            "configs": others,
        }));
    }
    entries.extend(clients.iter().map(|tool| {
        let description = tool.get("description").and_then(Value::as_str).unwrap_or_default();
        json!({
            "type": "custom", "name": tool["name"], "description": description,
            "input_schema": tool["input_schema"],
        })
    }));
    entries
}

/// The policy that the rules of a session have for a whole tool.
fn policy(name: &str, rules: &[Rule]) -> Value {
    let rule = rules.iter().find(|rule| rule.tool == name && rule.input.is_empty());
    let kind = match rule.map(|rule| rule.decision) {
        Some(Permission::Allow) => "always_allow",
        Some(Permission::Ask) => "always_ask",
        Some(Permission::Deny) | None => "auto",
    };
    json!({ "type": kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_of_the_toolset_has_the_name_of_the_protocol() {
        let names = ["Bash", "WebFetch", "web_fetch", "WebSearch", "Read", "get_time", "TodoWrite"];
        let shown =
            ["bash", "web_fetch", "web_fetch", "web_search", "read", "get_time", "TodoWrite"];
        assert_eq!(names.map(sdk_name), shown);
    }

    #[test]
    fn tools_are_shown_with_the_policies_of_their_rules() {
        let rule = |tool: &str, decision| Rule {
            tool: tool.to_owned(),
            input: BTreeMap::new(),
            decision,
            reason: None,
        };
        let rules = [rule("Read", Permission::Allow), rule("get_time", Permission::Ask)];
        let names = ["Read", "Write", "get_time"].map(str::to_owned);
        let client =
            json!({ "name": "lookup", "input_schema": { "type": "object" }, "client": true });
        let shown = entries(&names, &[client], &rules);
        let config = |name: &str, policy: &str| json!({ "name": name, "enabled": true, "permission_policy": { "type": policy } });
        let mut read = config("read", "always_allow");
        read["type"] = "read".into();
        let mut write = config("write", "auto");
        write["type"] = "write".into();
        assert_eq!(shown[0]["configs"], json!([read, write]));
        assert_eq!(shown[1]["configs"], json!([config("get_time", "always_ask")]));
        assert_eq!(
            shown[2],
            json!({ "type": "custom", "name": "lookup", "description": "",
                    "input_schema": { "type": "object" } })
        );
    }
}
