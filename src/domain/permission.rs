//! Permission policy types: rules, modes and decisions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::string_enum::string_enum;

/// The verdict of the permission policy on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// It may run.
    Allow,
    /// The call waits for a decision.
    Ask,
    /// It must not run.
    Deny,
}

/// The treatment of calls that match no rule.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
    clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum PermissionMode {
    /// Read-only calls run; all other calls wait for a decision.
    Default,
    /// Changes of files in the workspace run too.
    AcceptEdits,
    /// Only read-only calls run until a plan is approved.
    Plan,
    /// All calls run. The operator must have enabled this mode.
    Bypass,
}

impl PermissionMode {
    /// The mode as text, on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "accept_edits",
            Self::Plan => "plan",
            Self::Bypass => "bypass",
        }
    }

    /// Parses the text that the database stores.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Default, Self::AcceptEdits, Self::Plan, Self::Bypass]
            .into_iter()
            .find(|mode| mode.as_str() == text)
    }
}

/// A rule of a policy. The first rule that matches a call decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The tool's name, or a pattern in which `*` matches any part of a name.
    pub tool: String,
    /// Patterns for members of the input, all of which must match.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub input: BTreeMap<String, String>,
    /// The verdict.
    #[serde(deserialize_with = "string_enum")]
    pub decision: Permission,
    /// The reason, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The party that must act before a call continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Awaits {
    /// A person or program that decides whether the call may run.
    Approval,
    /// The client, which runs the call.
    Client,
}

impl Awaits {
    /// The value in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Client => "client",
        }
    }

    /// Parses the text that the database stores.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Approval, Self::Client].into_iter().find(|awaits| awaits.as_str() == text)
    }
}

/// The decision on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It may run.
    Allow,
    /// It must not run.
    Deny,
}

impl Decision {
    /// The decision as text, on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }

    /// Parses the text that the database stores.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Allow, Self::Deny].into_iter().find(|decision| decision.as_str() == text)
    }
}
