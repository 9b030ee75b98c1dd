//! The chunks of a UI message stream.

use serde::Serialize;
use serde_json::Value;

/// A chunk. An optional member is left out, never null: clients refuse null.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub(super) enum Chunk {
    Start {
        message_id: String,
        message_metadata: Value,
    },
    StartStep,
    FinishStep,
    TextStart {
        id: String,
    },
    TextDelta {
        id: String,
        delta: String,
    },
    TextEnd {
        id: String,
    },
    ReasoningStart {
        id: String,
    },
    ReasoningDelta {
        id: String,
        delta: String,
    },
    ReasoningEnd {
        id: String,
    },
    ToolInputStart {
        tool_call_id: String,
        tool_name: String,
        dynamic: bool,
    },
    ToolInputDelta {
        tool_call_id: String,
        input_text_delta: String,
    },
    ToolInputAvailable {
        tool_call_id: String,
        tool_name: String,
        input: Value,
        #[serde(flatten)]
        kind: ToolKind,
    },
    ToolInputError {
        tool_call_id: String,
        tool_name: String,
        input: Value,
        error_text: String,
        dynamic: bool,
    },
    ToolApprovalRequest {
        approval_id: String,
        tool_call_id: String,
    },
    ToolApprovalResponse {
        approval_id: String,
        approved: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    ToolOutputAvailable {
        tool_call_id: String,
        output: Value,
        #[serde(flatten)]
        kind: ToolKind,
    },
    ToolOutputError {
        tool_call_id: String,
        error_text: String,
        #[serde(flatten)]
        kind: ToolKind,
    },
    ToolOutputDenied {
        tool_call_id: String,
    },
    SourceUrl {
        source_id: String,
        url: String,
        title: String,
    },
    #[serde(rename = "data-todos")]
    Todos {
        id: &'static str,
        data: Value,
    },
    #[serde(rename = "data-sub-agent")]
    SubAgent {
        id: String,
        data: Value,
    },
    /// The state of the run, which clients show while it lasts and do not keep.
    #[serde(rename = "data-status")]
    Status {
        data: Value,
        transient: bool,
    },
    MessageMetadata {
        message_metadata: Value,
    },
    Error {
        error_text: String,
    },
    Abort,
    Finish {
        finish_reason: FinishReason,
    },
}

/// The side that runs a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolKind {
    /// Always true: the client has no types for the tools of the service.
    dynamic: bool,
    /// True if the service runs it. Otherwise the client calls its own function.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    provider_executed: bool,
}

impl ToolKind {
    /// A tool that the service runs.
    pub(super) const SERVER: Self = Self { dynamic: true, provider_executed: true };
    /// A tool that the client runs.
    pub(super) const CLIENT: Self = Self { dynamic: true, provider_executed: false };

    /// Returns true if the service runs the tool.
    pub(super) const fn is_server(self) -> bool {
        self.provider_executed
    }
}

/// The reason why a message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FinishReason {
    Stop,
    Length,
    ContentFilter,
    ToolCalls,
    Other,
}

impl Chunk {
    /// A state of the run.
    pub(super) const fn status(data: Value) -> Self {
        Self::Status { data, transient: true }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_chunk_has_the_names_of_the_protocol_and_no_null() {
        let table = [
            (Chunk::StartStep, json!({ "type": "start-step" })),
            (
                Chunk::ToolInputAvailable {
                    tool_call_id: "c".to_owned(),
                    tool_name: "n".to_owned(),
                    input: json!({}),
                    kind: ToolKind::CLIENT,
                },
                json!({ "type": "tool-input-available", "toolCallId": "c", "toolName": "n",
                        "input": {}, "dynamic": true }),
            ),
            (
                Chunk::ToolOutputError {
                    tool_call_id: "c".to_owned(),
                    error_text: "e".to_owned(),
                    kind: ToolKind::SERVER,
                },
                json!({ "type": "tool-output-error", "toolCallId": "c", "errorText": "e",
                        "dynamic": true, "providerExecuted": true }),
            ),
            (
                Chunk::ToolApprovalResponse {
                    approval_id: "c".to_owned(),
                    approved: true,
                    reason: None,
                },
                json!({ "type": "tool-approval-response", "approvalId": "c", "approved": true }),
            ),
            (
                Chunk::status(json!({ "status": "running" })),
                json!({ "type": "data-status", "data": { "status": "running" }, "transient": true }),
            ),
            (
                Chunk::Finish { finish_reason: FinishReason::ToolCalls },
                json!({ "type": "finish", "finishReason": "tool-calls" }),
            ),
        ];
        for (chunk, expected) in table {
            assert_eq!(serde_json::to_value(chunk).unwrap(), expected);
        }
    }
}
