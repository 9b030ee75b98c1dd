//! The tool calls of a run and the sources of its answer.

use serde::Serialize;

use super::call_end::EndReason;
use super::source::Source;
use super::sub_agent::SubAgentSummary;
use super::tool::CallState;
use super::tool_error::ToolErrorType;

/// The tool calls of a run and their sources.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunLog {
    /// The calls, in the order in which the model made them.
    pub calls: Vec<LoggedCall>,
    /// The sources of the results, in the order of the calls, without duplicates.
    pub sources: Vec<Source>,
    /// The sub-agents that the run started, in the order of the calls.
    pub sub_agents: Vec<SubAgentSummary>,
    /// True if a worker holds the run and executes its open calls.
    pub is_executing: bool,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct LoggedCall {
    /// The model's id of the call, which its events carry too.
    pub tool_use_id: String,
    /// The tool's name.
    pub name: String,
    /// The current state. The ledger records calls without effects only when they have ended; they are
    /// `started` while a worker executes them.
    pub state: CallState,
    /// True if the call ended and the model received an error.
    pub is_error: bool,
    /// The reason why the call ended without an outcome of its tool. Absent for a call that has not
    /// ended, and for a call whose tool succeeded or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<EndReason>,
    /// The type of the failure, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<ToolErrorType>,
}
