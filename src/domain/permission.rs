//! What a call may do: the words of the permission policy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::word::word;

/// What the permission policy says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// It may run.
    Allow,
    /// Somebody must decide.
    Ask,
    /// It must not run.
    Deny,
}

/// What happens to calls that no rule speaks of.
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
    /// What changes nothing runs; somebody decides on the rest.
    Default,
    /// Changes of files in the workspace run as well.
    AcceptEdits,
    /// Nothing that changes anything runs, until a plan is approved.
    Plan,
    /// Everything runs. The operator must have enabled it.
    Bypass,
}

impl PermissionMode {
    /// The word on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "accept_edits",
            Self::Plan => "plan",
            Self::Bypass => "bypass",
        }
    }

    /// Reads the word in the database.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Default, Self::AcceptEdits, Self::Plan, Self::Bypass]
            .into_iter()
            .find(|mode| mode.as_str() == text)
    }
}

/// One rule of a policy. The first that matches a call decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The tool's name, or a pattern of it: `*` stands for any part of a name.
    pub tool: String,
    /// Patterns for members of the input, all of which must match.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub input: BTreeMap<String, String>,
    /// What it says.
    #[serde(deserialize_with = "word")]
    pub decision: Permission,
    /// Why, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Who must act before a call can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Awaits {
    /// Somebody who decides whether it may run.
    Approval,
    /// The client, which runs it.
    Client,
}

impl Awaits {
    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Client => "client",
        }
    }

    /// Reads the word in the database.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Approval, Self::Client].into_iter().find(|awaits| awaits.as_str() == text)
    }
}

/// What somebody decided on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It may run.
    Allow,
    /// It must not run.
    Deny,
}

impl Decision {
    /// The word on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }

    /// Reads the word in the database.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Allow, Self::Deny].into_iter().find(|decision| decision.as_str() == text)
    }
}
