//! The history of a conversation as messages of the protocol.

use serde_json::{Value, json};

use super::event::result_id;
use crate::http::adapters::event::{RunEvent, joined};
use crate::service::turns::ConversationTurn;

/// The messages of turns, and the last todo list. Of a live turn only the user message: its stream has
/// the rest.
pub(super) fn messages(turns: &[ConversationTurn]) -> (Vec<Value>, Value) {
    let (mut messages, mut todos) = (Vec::new(), json!([]));
    for turn in turns {
        let mut reply = Reply::default();
        for frame in &turn.events {
            let event = RunEvent::of(frame);
            if let RunEvent::UserMessage { content } = &event {
                let text = joined(content);
                messages.push(json!({ "id": turn.message_id, "role": "user", "content": text }));
            } else if !turn.is_live {
                reply.take(event, &mut todos);
            }
        }
        messages.append(&mut reply.messages);
    }
    (messages, todos)
}

/// The messages after a user message.
#[derive(Debug, Default)]
struct Reply {
    messages: Vec<Value>,
    /// The position of the text of the step, to which its calls belong.
    parent: Option<usize>,
}

impl Reply {
    fn take(&mut self, event: RunEvent, todos: &mut Value) {
        match event {
            RunEvent::ModelRequest { tool_use_id: None } => self.parent = None,
            RunEvent::Text { id, content } => {
                self.parent = Some(self.messages.len());
                let text = joined(&content);
                self.messages.push(json!({ "id": id, "role": "assistant", "content": text }));
            }
            RunEvent::Thinking { id, content } => {
                let text = joined(&content);
                if !text.is_empty() {
                    self.messages.push(json!({ "id": id, "role": "reasoning", "content": text }));
                }
            }
            RunEvent::ToolUse { id, name, input, .. }
            | RunEvent::ClientToolUse { id, name, input } => self.call(&id, &name, &input),
            RunEvent::ToolResult { tool_use_id, content, is_error, .. }
            | RunEvent::ClientResult { tool_use_id, content, is_error } => {
                let text = joined(&content);
                let mut message = json!({
                    "id": result_id(&tool_use_id),
                    "role": "tool",
                    "toolCallId": tool_use_id,
                    "content": text,
                });
                if is_error && let Some(message) = message.as_object_mut() {
                    message.insert("error".to_owned(), text.into());
                }
                self.messages.push(message);
            }
            RunEvent::Todos { todos: new } => *todos = new,
            RunEvent::UserMessage { .. }
            | RunEvent::Decided { .. }
            | RunEvent::SubAgent(_)
            | RunEvent::SubAgentEvent { .. }
            | RunEvent::Running {}
            | RunEvent::Rescheduled { .. }
            | RunEvent::Idle { .. }
            | RunEvent::Error { .. }
            | RunEvent::Usage { .. }
            | RunEvent::ModelRequest { tool_use_id: Some(_) }
            | RunEvent::ModelReply { .. }
            | RunEvent::Other => {}
        }
    }

    fn call(&mut self, id: &str, name: &str, input: &Value) {
        let function = json!({ "name": name, "arguments": input.to_string() });
        let call = json!({ "id": id, "type": "function", "function": function });
        let parent = self.parent.and_then(|parent| self.messages.get_mut(parent));
        let Some(parent) = parent.and_then(Value::as_object_mut) else {
            self.messages.push(json!({ "id": id, "role": "assistant", "toolCalls": [call] }));
            return;
        };
        let calls = parent.entry("toolCalls").or_insert_with(|| json!([]));
        if let Some(calls) = calls.as_array_mut() {
            calls.push(call);
        }
    }
}
