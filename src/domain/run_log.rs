//! What a run has called, and what its answer so rests on.

use serde::Serialize;

use super::source::Source;
use super::sub_agent::StartedAgent;
use super::tool::CallState;

/// The calls of a run and their sources.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunLog {
    /// The calls, in the order in which the model made them.
    pub calls: Vec<LoggedCall>,
    /// What their results rest on, in the order of the calls, each once.
    pub sources: Vec<Source>,
    /// The sub-agents that it has started, in the order of the calls.
    pub sub_agents: Vec<StartedAgent>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct LoggedCall {
    /// The model's id of the call, which its events have as well.
    pub tool_use_id: String,
    /// The tool's name.
    pub name: String,
    /// Where it stands.
    pub state: CallState,
    /// Whether it ended, and the model was told of an error.
    pub is_error: bool,
}
