//! The messages of the protocol, folded from the chunks that a stream would send.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::chunk::{Chunk, ToolKind};

/// A message of the AI SDK (`UIMessage`).
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct UiMessage {
    /// The client's id of a user message; `msg_` and the id of the run of an assistant message.
    pub(super) id: String,
    /// The author.
    pub(super) role: UiRole,
    /// Of an assistant message: `session_id`, `run_id`, and when the run has settled `usage` and
    /// `cost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub(super) metadata: Option<Value>,
    /// The parts: `text`, `reasoning`, `dynamic-tool`, `source-url`, `step-start`, `data-…`.
    #[schema(value_type = Vec<Object>)]
    pub(super) parts: Vec<Value>,
}

/// The messages of a conversation, oldest first (`UIMessage[]`).
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(transparent)]
pub(in crate::http) struct UiMessages(pub(super) Vec<UiMessage>);

/// The author of a message.
#[derive(Debug, Clone, Copy, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::http) enum UiRole {
    User,
    Assistant,
}

impl UiMessage {
    /// An assistant message without parts.
    pub(super) fn assistant() -> Self {
        let (id, role) = (String::new(), UiRole::Assistant);
        Self { id, role, metadata: None, parts: Vec::new() }
    }

    /// Applies a chunk, as the client does.
    pub(super) fn apply(&mut self, chunk: Chunk) {
        match chunk {
            Chunk::Start { message_id, message_metadata } => {
                self.id = message_id;
                self.add_metadata(message_metadata);
            }
            Chunk::MessageMetadata { message_metadata } => self.add_metadata(message_metadata),
            Chunk::StartStep => self.parts.push(json!({ "type": "step-start" })),
            Chunk::TextStart { .. } => self.start_text("text"),
            Chunk::ReasoningStart { .. } => self.start_text("reasoning"),
            Chunk::TextDelta { delta, .. } | Chunk::ReasoningDelta { delta, .. } => {
                self.extend_text(&delta);
            }
            Chunk::TextEnd { .. } | Chunk::ReasoningEnd { .. } => self.set_last("state", "done"),
            Chunk::ToolInputAvailable { tool_call_id, tool_name, input, kind } => {
                self.call(&tool_call_id, &tool_name, input, kind);
            }
            Chunk::ToolApprovalRequest { approval_id, tool_call_id } => {
                let approval = json!({ "id": approval_id });
                self.set(&tool_call_id, "approval-requested", "approval", approval);
            }
            Chunk::ToolApprovalResponse { approval_id, approved, reason } => {
                let mut approval = json!({ "id": approval_id, "approved": approved });
                if let (Some(reason), Some(approval)) = (reason, approval.as_object_mut()) {
                    approval.insert("reason".to_owned(), reason.into());
                }
                self.set(&approval_id, "approval-responded", "approval", approval);
            }
            Chunk::ToolOutputAvailable { tool_call_id, output, .. } => {
                self.set(&tool_call_id, "output-available", "output", output);
            }
            Chunk::ToolOutputError { tool_call_id, error_text, .. } => {
                self.set(&tool_call_id, "output-error", "errorText", error_text.into());
            }
            Chunk::ToolOutputDenied { tool_call_id } => {
                self.set_state(&tool_call_id, "output-denied");
            }
            Chunk::SourceUrl { source_id, url, title } => self.parts.push(json!({
                "type": "source-url", "sourceId": source_id, "url": url, "title": title,
            })),
            Chunk::Todos { id, data } => self.data("data-todos", id, &data),
            Chunk::SubAgent { id, data } => self.data("data-sub-agent", &id, &data),
            // Only a live stream has these, or they leave no trace in the message.
            Chunk::ToolInputStart { .. }
            | Chunk::ToolInputDelta { .. }
            | Chunk::ToolInputError { .. }
            | Chunk::FinishStep
            | Chunk::Status { .. }
            | Chunk::Error { .. }
            | Chunk::Abort
            | Chunk::Finish { .. } => {}
        }
    }

    fn add_metadata(&mut self, more: Value) {
        let metadata = self.metadata.get_or_insert_with(|| json!({}));
        if let (Some(metadata), Value::Object(more)) = (metadata.as_object_mut(), more) {
            metadata.extend(more);
        }
    }

    fn start_text(&mut self, kind: &str) {
        self.parts.push(json!({ "type": kind, "text": "", "state": "streaming" }));
    }

    fn extend_text(&mut self, delta: &str) {
        if let Some(Value::String(text)) = self.parts.last_mut().and_then(|it| it.get_mut("text")) {
            text.push_str(delta);
        }
    }

    fn set_last(&mut self, member: &str, value: &str) {
        if let Some(part) = self.parts.last_mut().and_then(Value::as_object_mut) {
            part.insert(member.to_owned(), value.into());
        }
    }

    fn call(&mut self, id: &str, name: &str, input: Value, kind: ToolKind) {
        if self.find(id).is_some() {
            self.set(id, "input-available", "input", input);
            return;
        }
        let mut part = json!({
            "type": "dynamic-tool", "toolName": name, "toolCallId": id, "state": "input-available",
            "input": input,
        });
        if let (true, Some(part)) = (kind.is_server(), part.as_object_mut()) {
            part.insert("providerExecuted".to_owned(), true.into());
        }
        self.parts.push(part);
    }

    /// Sets a member and the state of a call.
    fn set(&mut self, id: &str, state: &str, member: &str, value: Value) {
        if let Some(part) = self.find(id) {
            part.insert(member.to_owned(), value);
        }
        self.set_state(id, state);
    }

    fn set_state(&mut self, id: &str, state: &str) {
        if let Some(part) = self.find(id) {
            part.insert("state".to_owned(), state.into());
        }
    }

    fn find(&mut self, id: &str) -> Option<&mut Map<String, Value>> {
        let parts = self.parts.iter_mut().rev().filter_map(Value::as_object_mut);
        parts.into_iter().find(|part| part.get("toolCallId").is_some_and(|own| own == id))
    }

    /// Adds a data part, or replaces the one with the same id.
    fn data(&mut self, kind: &str, id: &str, data: &Value) {
        let is_same = |part: &&mut Value| {
            part.get("type").is_some_and(|it| it == kind)
                && part.get("id").is_some_and(|it| it == id)
        };
        let new = json!({ "type": kind, "id": id, "data": data });
        match self.parts.iter_mut().find(is_same) {
            Some(part) => *part = new,
            None => self.parts.push(new),
        }
    }
}
