//! Agents: named, versioned sets of session settings.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Maximum length of a name in bytes.
const MAX_NAME: usize = 64;

/// The name of an agent: 1 to 64 of `a-z`, `0-9`, `_` and `-`, the first a letter or a digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct AgentName(String);

/// A text that does not name an agent.
#[derive(Debug, thiserror::Error)]
pub enum BadAgent {
    /// The name is invalid.
    #[error("{0:?} is not 1 to 64 of a-z, 0-9, _ and -, the first a letter or a digit")]
    Name(String),
    /// The text after the `@` is not a version.
    #[error("{0:?} is not a version: versions are counted from 1")]
    Version(String),
}

impl AgentName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AgentName {
    type Err = BadAgent;

    fn from_str(text: &str) -> Result<Self, BadAgent> {
        let is_first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let is_legal = |c: char| is_first(c) || c == '_' || c == '-';
        let is_name =
            text.len() <= MAX_NAME && text.starts_with(is_first) && text.chars().all(is_legal);
        if is_name { Ok(Self(text.to_owned())) } else { Err(BadAgent::Name(text.to_owned())) }
    }
}

impl TryFrom<String> for AgentName {
    type Error = BadAgent;

    fn try_from(text: String) -> Result<Self, BadAgent> {
        text.parse()
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One version of an agent. Boxed in settings, because settings are part of many large futures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AgentVersion {
    /// The name.
    #[schema(value_type = String)]
    pub name: AgentName,
    /// The version, from 1.
    pub version: i32,
}

impl fmt::Display for AgentVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.version)
    }
}

/// A reference to an agent: `coder` for the newest version, or `coder@3`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct AgentChoice {
    /// The name.
    pub name: AgentName,
    /// The version; none for the newest.
    pub version: Option<i32>,
}

impl FromStr for AgentChoice {
    type Err = BadAgent;

    fn from_str(text: &str) -> Result<Self, BadAgent> {
        let Some((name, version)) = text.split_once('@') else {
            return Ok(Self { name: text.parse()?, version: None });
        };
        let read: Option<i32> = version.parse().ok();
        // Only the canonical spelling of a number is accepted.
        let read = read.filter(|number| *number > 0 && number.to_string() == version);
        let read = read.ok_or_else(|| BadAgent::Version(version.to_owned()))?;
        Ok(Self { name: name.parse()?, version: Some(read) })
    }
}

impl TryFrom<String> for AgentChoice {
    type Error = BadAgent;

    fn try_from(text: String) -> Result<Self, BadAgent> {
        text.parse()
    }
}

impl fmt::Display for AgentChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(version) => write!(f, "{}@{version}", self.name),
            None => self.name.fmt(f),
        }
    }
}

/// The origin of an agent's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentSource {
    /// Defined by the tenant.
    Tenant,
    /// Defined by the operator in a file.
    Operator,
    /// Built into the service.
    Builtin,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_named_with_a_version_or_without() {
        let longest = "x".repeat(MAX_NAME);
        for text in ["coder", "0", "a_b-c", "coder@1", "coder@2147483647", &longest] {
            assert_eq!(text.parse::<AgentChoice>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn invalid_agent_references_are_refused() {
        let long = "x".repeat(MAX_NAME + 1);
        for text in [
            "",
            "-a",
            "_a",
            "Coder",
            "a b",
            "a/b",
            "a.b",
            "å",
            &long,
            "@1",
            "a@",
            "a@0",
            "a@01",
            "a@+1",
            "a@-1",
            "a@1@2",
            "a@2147483648",
            "a@latest",
        ] {
            assert!(text.parse::<AgentChoice>().is_err(), "{text:?}");
        }
    }
}
