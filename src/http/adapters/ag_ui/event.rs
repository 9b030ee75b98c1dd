//! The events of the protocol.

use serde::Serialize;
use serde_json::{Value, json};

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub(super) enum AgUiEvent {
    RunStarted {
        thread_id: String,
        run_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        protocol_version: Option<&'static str>,
    },
    StepStarted {
        step_name: String,
    },
    StepFinished {
        step_name: String,
    },
    TextMessageStart {
        message_id: String,
        role: &'static str,
    },
    TextMessageContent {
        message_id: String,
        delta: String,
    },
    TextMessageEnd {
        message_id: String,
    },
    ReasoningStart {
        message_id: String,
    },
    ReasoningMessageStart {
        message_id: String,
        role: &'static str,
    },
    ReasoningMessageContent {
        message_id: String,
        delta: String,
    },
    ReasoningMessageEnd {
        message_id: String,
    },
    ReasoningEnd {
        message_id: String,
    },
    ToolCallStart {
        tool_call_id: String,
        tool_call_name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_message_id: Option<String>,
    },
    ToolCallArgs {
        tool_call_id: String,
        delta: String,
    },
    ToolCallEnd {
        tool_call_id: String,
    },
    ToolCallResult {
        message_id: String,
        tool_call_id: String,
        content: String,
        role: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Value>,
    },
    StateSnapshot {
        snapshot: Value,
    },
    MessagesSnapshot {
        messages: Vec<Value>,
    },
    RunFinished {
        thread_id: String,
        run_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<Value>,
    },
    RunError {
        message: String,
    },
}

/// The request of an approval: an interrupt.
pub(super) fn interrupt(tool_call_id: &str, name: &str) -> Value {
    json!({
        "id": tool_call_id,
        "reason": "tool_call",
        "toolCallId": tool_call_id,
        "message": format!("Allow {name}?"),
        "responseSchema": {
            "type": "object",
            "properties": {
                "approved": { "type": "boolean" },
                "message": { "type": "string" },
                "editedArgs": { "type": "object" },
            },
            "required": ["approved"],
        },
    })
}

/// The id of the message with the result of a call.
pub(super) fn result_id(tool_call_id: &str) -> String {
    format!("result_{tool_call_id}")
}
