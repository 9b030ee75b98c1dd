//! Tools and their calls, as the loop and the ledger handle them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::tool_error::ToolErrorType;

pub use super::tool_choice::ToolChoice;

/// The effects of a tool, which determine the recovery of a call after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolClass {
    /// No effects: calls run again after a crash, and in parallel with each other.
    Pure,
    /// Changes one file, so that a hash shows afterwards whether the change happened.
    Checkable,
    /// Any other effect: never repeated automatically.
    Effect,
    /// Starts a sub-agent's run, which is found again by its id: never started twice.
    #[serde(rename = "child")]
    SubAgent,
}

/// The usual duration of a tool's calls, which determines the default deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolTiming {
    /// No IO: 2 seconds.
    Immediate,
    /// Local files: 10 seconds.
    Fast,
    /// Work of unknown duration: 120 seconds.
    Variable,
    /// Network requests: 60 seconds.
    Network,
}

impl ToolTiming {
    /// The default deadline of a call.
    pub const fn deadline(self) -> std::time::Duration {
        std::time::Duration::from_secs(match self {
            Self::Immediate => 2,
            Self::Fast => 10,
            Self::Variable => 120,
            Self::Network => 60,
        })
    }
}

/// A call in an assistant message.
#[derive(Debug, Clone, Deserialize)]
pub struct ToolUse<'a> {
    /// The model's own id, unchanged.
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// The tool's name.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// The input, byte for byte.
    #[serde(borrow)]
    pub input: &'a RawValue,
}

/// A call that the loop schedules.
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

/// The state of a call in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Stored with the assistant message; not started.
    Planned,
    /// About to run, or running: effects may have happened.
    Started,
    /// Completed with a result.
    Done,
    /// Completed with an error, or could not run.
    Failed,
    /// Ended without an outcome, because its worker stopped or its run ended first. It may have run
    /// in part or completely, unless its run ended before it started.
    Interrupted,
    /// Not allowed to run: denied, or not approved in time.
    Denied,
}

impl CallState {
    /// The state as text in the database.
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

    /// Parses the text that the database stores.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Planned, Self::Started, Self::Done, Self::Failed, Self::Interrupted, Self::Denied]
            .into_iter()
            .find(|state| state.as_str() == text)
    }

    /// Returns `true` if the call ended without success.
    pub const fn is_error(self) -> bool {
        matches!(self, Self::Failed | Self::Interrupted | Self::Denied)
    }
}

/// Maximum number of calls without effects of one round that are executed at once.
pub const PARALLEL_CALLS: usize = 8;

/// The result of a call, in the order and with the ids of the calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResult {
    /// The id of the call.
    pub tool_use_id: String,
    /// The final state of the call.
    pub state: CallState,
    /// The text that the model receives.
    pub text: String,
    /// A JSON array of blocks that the model receives in place of the text, if the result is more
    /// than text.
    pub content: Option<String>,
    /// The type of the failure, if known.
    pub error_type: Option<ToolErrorType>,
}

impl CallResult {
    /// Creates a text result.
    pub fn of_text(tool_use_id: &str, state: CallState, text: impl Into<String>) -> Self {
        let tool_use_id = tool_use_id.to_owned();
        Self { tool_use_id, state, text: text.into(), content: None, error_type: None }
    }

    /// Returns `true` if the result is an error for the model.
    pub const fn is_error(&self) -> bool {
        !matches!(self.state, CallState::Done)
    }
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// Returns the name of the tool with this definition.
pub fn defined_name(definition: &RawValue) -> Option<String> {
    serde_json::from_str::<Named>(definition.get()).ok().map(|tool| tool.name)
}

/// Returns the names of the tools in an array of definitions, in its order.
pub fn defined_names(definitions: &RawValue) -> Vec<String> {
    serde_json::from_str::<Vec<Named>>(definitions.get())
        .map(|tools| tools.into_iter().map(|tool| tool.name).collect())
        .unwrap_or_default()
}
