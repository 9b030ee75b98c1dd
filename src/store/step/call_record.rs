//! Changes of ledger rows.

use std::time::Duration;

use crate::domain::call_end::EndReason;
use crate::domain::ids::RunId;
use crate::domain::permission::Awaits;
use crate::domain::source::Source;
use crate::domain::tool::CallState;
use crate::domain::tool_error::ToolErrorType;

/// A change of one row of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecord {
    /// The model's ID of the call.
    pub tool_use_id: String,
    /// The new state.
    pub state: CallState,
    /// The result as the model reads it, once the call has ended.
    pub result: Option<String>,
    /// The blocks of a result that is more than text, if no message is stored with it.
    pub content: Option<String>,
    /// True if the change begins an execution of the tool, or records one.
    pub is_execution: bool,
    /// The duration of a recorded execution in milliseconds; 0 if the execution begins.
    pub duration_ms: i64,
    /// The file change that begins.
    pub change: Option<ChangeRecord>,
    /// The type of the failure.
    pub error_type: Option<ToolErrorType>,
    /// The reason for which the call ended without an outcome of its tool.
    pub end_reason: Option<EndReason>,
    /// The answer that the call awaits from now on.
    pub wait: Option<NewWait>,
    /// SHA-256 of the input that runs, or that is to be decided on.
    pub input_hash: Option<Vec<u8>>,
    /// The sandbox level of the call.
    pub sandbox: Option<&'static str>,
    /// The sources of the result.
    pub sources: Vec<Source>,
    /// The run of the sub-agent that starts with the call.
    pub sub_agent_run: Option<RunId>,
}

/// The wait of a call for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWait {
    /// The party whose answer is awaited.
    pub awaits: Awaits,
    /// The time limit.
    pub within: Duration,
    /// The reason for asking.
    pub reason: Option<String>,
    /// The proposed change of the file, as a unified diff.
    pub diff: Option<String>,
}

/// The change of a file, recorded before it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeRecord {
    /// The file, relative to the workspace.
    pub path: String,
    /// SHA-256 before; `None` if there is no file.
    pub before: Option<Vec<u8>>,
    /// SHA-256 after.
    pub after: Vec<u8>,
    /// The result that the model reads after the change.
    pub result: String,
}

impl CallRecord {
    /// A change of the state only.
    pub fn new(tool_use_id: &str, state: CallState) -> Self {
        Self {
            tool_use_id: tool_use_id.to_owned(),
            state,
            result: None,
            content: None,
            is_execution: false,
            duration_ms: 0,
            change: None,
            error_type: None,
            end_reason: None,
            wait: None,
            input_hash: None,
            sandbox: None,
            sources: Vec::new(),
            sub_agent_run: None,
        }
    }
}
