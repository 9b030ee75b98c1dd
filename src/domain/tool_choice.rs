//! The use of tools that a client requests.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::string_enum::string_enum;

/// The tool choice of a run's first round. `disable_parallel_tool_use` holds for all rounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ToolChoice {
    /// The model decides.
    Auto {
        /// True if a reply may have at most one call.
        #[serde(skip_serializing_if = "Option::is_none")]
        disable_parallel_tool_use: Option<bool>,
    },
    /// The model must call a tool.
    Any {
        /// True if a reply may have at most one call.
        #[serde(skip_serializing_if = "Option::is_none")]
        disable_parallel_tool_use: Option<bool>,
    },
    /// The model must call this tool.
    Tool {
        /// The tool's name.
        name: String,
        /// True if a reply may have at most one call.
        #[serde(skip_serializing_if = "Option::is_none")]
        disable_parallel_tool_use: Option<bool>,
    },
    /// The model must not call a tool.
    None,
}

impl ToolChoice {
    /// The model decides; it may request several calls at once.
    pub const AUTO: Self = Self::Auto { disable_parallel_tool_use: None };
    /// The model must call a tool; it may request several calls at once.
    pub const ANY: Self = Self::Any { disable_parallel_tool_use: None };

    /// Returns `true` if the model must call a tool.
    pub const fn is_forced(&self) -> bool {
        matches!(self, Self::Any { .. } | Self::Tool { .. })
    }

    /// Returns `true` if the choice is the default of the model's API, which needs not be sent.
    pub fn is_default(&self) -> bool {
        matches!(self, Self::Auto { .. }) && !self.forbids_parallel()
    }

    /// Returns `true` if a reply may have at most one call.
    pub fn forbids_parallel(&self) -> bool {
        self.disable_parallel_tool_use().unwrap_or(false)
    }

    /// The member `disable_parallel_tool_use`.
    const fn disable_parallel_tool_use(&self) -> Option<bool> {
        match self {
            Self::Auto { disable_parallel_tool_use }
            | Self::Any { disable_parallel_tool_use }
            | Self::Tool { disable_parallel_tool_use, .. } => *disable_parallel_tool_use,
            Self::None => None,
        }
    }

    /// The choice of a run: that of its message, completed by that of its session.
    pub fn of_run(message: Option<&Self>, session: Option<&Self>) -> Self {
        let inherited = session.and_then(Self::disable_parallel_tool_use);
        let mut choice = message.or(session).cloned().unwrap_or(Self::AUTO);
        match &mut choice {
            Self::Auto { disable_parallel_tool_use }
            | Self::Any { disable_parallel_tool_use }
            | Self::Tool { disable_parallel_tool_use, .. } => {
                *disable_parallel_tool_use = disable_parallel_tool_use.or(inherited);
            }
            Self::None => {}
        }
        choice
    }

    /// The choice of the rounds after the first: the model decides.
    #[must_use]
    pub fn of_later_rounds(message: Option<&Self>, session: Option<&Self>) -> Self {
        let own = message.and_then(Self::disable_parallel_tool_use);
        let disable_parallel_tool_use =
            own.or_else(|| session.and_then(Self::disable_parallel_tool_use));
        Self::Auto { disable_parallel_tool_use }
    }
}

/// The types of tool choices.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Auto,
    Any,
    Tool,
    None,
}

/// The members of all tool choices.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Members {
    #[serde(deserialize_with = "string_enum")]
    r#type: Kind,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    disable_parallel_tool_use: Option<bool>,
}

/// Written by hand: serde ignores unknown members of a variant without members, and errors within
/// an internally tagged enum do not name the member.
impl<'de> Deserialize<'de> for ToolChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Members { r#type: kind, name, disable_parallel_tool_use } =
            Members::deserialize(deserializer)?;
        if name.is_some() && kind != Kind::Tool {
            return Err(D::Error::custom("only the type `tool` has a `name`"));
        }
        if disable_parallel_tool_use.is_some() && kind == Kind::None {
            let message = "the type `none` has no `disable_parallel_tool_use`";
            return Err(D::Error::custom(message));
        }
        Ok(match kind {
            Kind::Auto => Self::Auto { disable_parallel_tool_use },
            Kind::Any => Self::Any { disable_parallel_tool_use },
            Kind::Tool => {
                let name = name.ok_or_else(|| D::Error::missing_field("name"))?;
                Self::Tool { name, disable_parallel_tool_use }
            }
            Kind::None => Self::None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ToolChoice, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_choice_is_written_as_it_was_read() {
        for text in [
            r#"{"type":"auto"}"#,
            r#"{"type":"auto","disable_parallel_tool_use":true}"#,
            r#"{"type":"any","disable_parallel_tool_use":false}"#,
            r#"{"type":"tool","name":"a","disable_parallel_tool_use":true}"#,
            r#"{"type":"none"}"#,
        ] {
            assert_eq!(serde_json::to_string(&read(text).unwrap()).unwrap(), text);
        }
    }

    #[test]
    fn members_that_a_choice_does_not_have_are_refused() {
        for (text, expected) in [
            (r#"{"type":"auto","junk":1}"#, "unknown field `junk`"),
            (r#"{"type":"none","junk":1}"#, "unknown field `junk`"),
            (r#"{"type":"any","name":"a"}"#, "only the type `tool` has a `name`"),
            (r#"{"type":"none","disable_parallel_tool_use":true}"#, "the type `none` has no"),
            (r#"{"type":"auto","disable_parallel_tool_use":1}"#, "invalid type: integer"),
            (r#"{"type":"tool","name":null}"#, "missing field `name`"),
            (r#"{"type":"tool"}"#, "missing field `name`"),
            (r#"{"name":"a"}"#, "missing field `type`"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn the_choice_of_a_message_replaces_that_of_its_session() {
        let one = |disable| ToolChoice::Auto { disable_parallel_tool_use: disable };
        let forced = ToolChoice::Tool { name: "a".into(), disable_parallel_tool_use: Some(true) };
        for (message, session, first, later) in [
            (None, None, one(None), one(None)),
            (None, Some(&forced), forced.clone(), one(Some(true))),
            (
                Some(&ToolChoice::ANY),
                Some(&forced),
                ToolChoice::Any { disable_parallel_tool_use: Some(true) },
                one(Some(true)),
            ),
            (Some(&one(Some(false))), Some(&forced), one(Some(false)), one(Some(false))),
            (Some(&ToolChoice::None), Some(&forced), ToolChoice::None, one(Some(true))),
        ] {
            assert_eq!(ToolChoice::of_run(message, session), first, "{message:?}, {session:?}");
            let actual = ToolChoice::of_later_rounds(message, session);
            assert_eq!(actual, later, "{message:?}, {session:?}");
        }
    }
}
