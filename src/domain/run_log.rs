//! The tool calls of a run and the sources of its answer.

use serde::{Deserialize, Serialize};

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
    /// The files that code on the model's server has written, in the order of the replies.
    pub output_files: Vec<OutputFile>,
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

/// A file that code execution has written on the model's server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct OutputFile {
    /// The provider's id, with which the provider's Files API returns the content.
    pub file_id: String,
}

/// The text of a reply that names an output file.
pub const OUTPUT_FILE_MARK: &str = "code_execution_output\"";

/// Returns the files that the results of code execution in a reply name.
pub fn output_files(content: &str) -> Vec<OutputFile> {
    #[derive(Deserialize)]
    struct Block {
        r#type: String,
        #[serde(default)]
        content: serde_json::Value,
    }
    let is_result = |block: &Block| block.r#type.ends_with("code_execution_tool_result");
    let blocks: Vec<Block> = serde_json::from_str(content).unwrap_or_default();
    let results = blocks.into_iter().filter(is_result);
    let files = results.flat_map(|block| match block.content.get("content") {
        Some(serde_json::Value::Array(files)) => files.clone(),
        _ => Vec::new(),
    });
    let ids = files.filter_map(|file| Some(file.get("file_id")?.as_str()?.to_owned()));
    ids.map(|file_id| OutputFile { file_id }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_code_execution_are_found() {
        let content = r#"[{"type":"text","text":"Done."},
            {"type":"bash_code_execution_tool_result","tool_use_id":"srvtoolu_1","content":
                {"type":"bash_code_execution_result","stdout":"","stderr":"","return_code":0,
                 "content":[{"type":"bash_code_execution_output","file_id":"file_1"}]}},
            {"type":"code_execution_tool_result","tool_use_id":"srvtoolu_2","content":
                {"type":"code_execution_tool_result_error","error_code":"unavailable"}}]"#;
        assert!(content.contains(OUTPUT_FILE_MARK));
        assert_eq!(output_files(content), [OutputFile { file_id: "file_1".to_owned() }]);
    }
}
