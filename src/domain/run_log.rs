//! The tool calls of a run and the sources of its answer.

use serde::Serialize;

use super::source::Source;
use super::sub_agent::SubAgentSummary;
use super::tool::CallState;

/// The tool calls of a run and their sources.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunLog {
    /// The calls, in the order in which the model made them.
    pub calls: Vec<LoggedCall>,
    /// The sources of the results, in the order of the calls, without duplicates.
    pub sources: Vec<Source>,
    /// The sub-agents that the run started, in the order of the calls.
    pub sub_agents: Vec<SubAgentSummary>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct LoggedCall {
    /// The model's id of the call, which its events carry too.
    pub tool_use_id: String,
    /// The tool's name.
    pub name: String,
    /// The current state.
    pub state: CallState,
    /// True if the call ended and the model received an error.
    pub is_error: bool,
}
