//! Tools as the loop and the ledger see them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::tool_error::ToolErrorType;

/// What a tool may do to the world, and so what a crash in the middle of a call means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolClass {
    /// Changes nothing: runs again after a crash, and in parallel with its like.
    Pure,
    /// Changes one file, so that its hash tells afterwards whether the change happened.
    Checkable,
    /// Anything else: never repeated by itself.
    Effect,
    /// Starts a run of its own, which is found again by its id: never started twice.
    Child,
}

/// How long calls of a tool usually take, and so its default deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolTiming {
    /// No IO: 2 seconds.
    Immediate,
    /// Local files: 10 seconds.
    Fast,
    /// Work of unknown size: 120 seconds.
    Variable,
    /// Another machine: 60 seconds.
    Network,
}

impl ToolTiming {
    /// The deadline of a call.
    pub const fn deadline(self) -> std::time::Duration {
        std::time::Duration::from_secs(match self {
            Self::Immediate => 2,
            Self::Fast => 10,
            Self::Variable => 120,
            Self::Network => 60,
        })
    }
}

/// A call as it stands in an assistant message.
#[derive(Debug, Clone, Deserialize)]
pub struct ToolUse<'a> {
    /// The model's own id, kept as it is.
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// The tool's name.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// The input, byte for byte.
    #[serde(borrow)]
    pub input: &'a RawValue,
}

/// A call that the loop wants run.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// The model's own id.
    pub tool_use_id: String,
    /// The tool's name.
    pub name: String,
    /// The input, byte for byte.
    pub input: Box<RawValue>,
}

impl PartialEq for ToolCall {
    fn eq(&self, other: &Self) -> bool {
        self.tool_use_id == other.tool_use_id
            && self.name == other.name
            && self.input.get() == other.input.get()
    }
}

impl From<&ToolUse<'_>> for ToolCall {
    fn from(call: &ToolUse<'_>) -> Self {
        Self {
            tool_use_id: call.id.clone().into_owned(),
            name: call.name.clone().into_owned(),
            input: call.input.to_owned(),
        }
    }
}

/// Where a call stands in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Stored with the assistant message; nothing has happened yet.
    Planned,
    /// About to run, or running: from here on the outside world may have changed.
    Started,
    /// Ran and answered.
    Done,
    /// Ran and failed, or could not run.
    Failed,
    /// Nobody knows whether it ran.
    Interrupted,
    /// Not allowed to run.
    Denied,
}

impl CallState {
    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Started => "started",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Denied => "denied",
        }
    }

    /// Reads the word in the database.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Planned, Self::Started, Self::Done, Self::Failed, Self::Interrupted, Self::Denied]
            .into_iter()
            .find(|state| state.as_str() == text)
    }

    /// Whether the call has ended, and not as it should.
    pub const fn is_error(self) -> bool {
        matches!(self, Self::Failed | Self::Interrupted | Self::Denied)
    }
}

/// What the model is told when a worker died during a call with effects.
pub const INTERRUPTED: &str = "Interrupted: the worker stopped while this call was running. \
     It may have run in part or completely. Check the state before you repeat it.";

/// What the model is told when a call has no answer because its run was cancelled.
pub const CANCELLED: &str = "Cancelled: the run was cancelled before this call was answered.";

/// The answer to a call, in the order and with the ids of the calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResult {
    /// The call that it answers.
    pub tool_use_id: String,
    /// How the call ended.
    pub state: CallState,
    /// What the model reads.
    pub text: String,
    /// What the model reads in its place, if it is more than a text: a JSON array of blocks.
    pub content: Option<String>,
    /// Of what type the failure was, if it has one.
    pub error_type: Option<ToolErrorType>,
}

impl CallResult {
    /// An answer that is a text.
    pub fn of_text(tool_use_id: &str, state: CallState, text: impl Into<String>) -> Self {
        let tool_use_id = tool_use_id.to_owned();
        Self { tool_use_id, state, text: text.into(), content: None, error_type: None }
    }

    /// Whether the model is told that the call failed.
    pub const fn is_error(&self) -> bool {
        !matches!(self.state, CallState::Done)
    }
}

/// The names of tools by their definitions, an array, in its order.
pub fn defined_names(definitions: &RawValue) -> Vec<String> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    serde_json::from_str::<Vec<Named>>(definitions.get())
        .map(|tools| tools.into_iter().map(|tool| tool.name).collect())
        .unwrap_or_default()
}

/// How the model may use tools in its first round.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// Some tool must be called.
    Any,
    /// This tool must be called.
    Tool {
        /// The tool's name.
        name: String,
    },
    /// No tool may be called.
    None,
}

impl ToolChoice {
    /// Whether the model has no choice but to call a tool.
    pub const fn is_forced(&self) -> bool {
        matches!(self, Self::Any | Self::Tool { .. })
    }
}
