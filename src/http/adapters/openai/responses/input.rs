//! The items of the input of a request.

use serde::Deserialize;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::item::APPROVAL_PREFIX;
use crate::domain::permission::Decision;
use crate::http::adapters::call_answers::{CallAnswer, CallAnswers, CallReply};
use crate::http::adapters::openai::body::{CompletionMessage, CompletionRequest, Role};
use crate::http::adapters::openai::content::blocks;
use crate::http::error::ApiError;
use crate::service::answers::ApprovalDecision;

/// A checked request.
#[derive(Debug)]
pub(super) struct ResponseRequest {
    /// The id of the response that is continued.
    pub(super) previous: Option<String>,
    pub(super) request: CompletionRequest,
}

/// The items of an input.
#[derive(Debug, Default)]
pub(super) struct InputItems {
    /// The messages, as those of a transcript. Messages of the user without an item between them are one
    /// message.
    pub(super) messages: Vec<CompletionMessage>,
    /// The answers after the last message of the assistant.
    pub(super) answers: CallAnswers,
    /// The author of the last item.
    pub(super) last: Option<Role>,
}

/// An item. Other members are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Item {
    r#type: Option<String>,
    role: Option<Role>,
    content: Value,
    call_id: Option<String>,
    output: Value,
    approval_request_id: Option<String>,
    approve: Option<bool>,
    reason: Option<String>,
}

impl InputItems {
    /// Reads an input: a text, or items.
    pub(super) fn of(input: Value) -> Result<Self, ApiError> {
        let answers =
            CallAnswers { given: Vec::new(), pointer: "/input".to_owned(), id_member: "call_id" };
        let mut items = Self { answers, ..Self::default() };
        match input {
            Value::String(text) => items.message(Role::User, Value::String(text)),
            Value::Array(all) => {
                for (index, item) in all.into_iter().enumerate() {
                    items.take(item, format!("/input/{index}"))?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                return Err(ApiError::field("/input", "is not a string or an array of items"));
            }
        }
        Ok(items)
    }

    fn take(&mut self, item: Value, pointer: String) -> Result<(), ApiError> {
        let item = Item::deserialize(item);
        let item = item.map_err(|error| ApiError::field(&pointer, error.to_string()))?;
        match item.r#type.as_deref() {
            None | Some("message") => {
                let missing = || ApiError::field(&format!("{pointer}/role"), "is missing");
                self.message(item.role.ok_or_else(missing)?, item.content);
            }
            Some("function_call_output") => {
                let missing = || ApiError::field(&format!("{pointer}/call_id"), "is missing");
                let tool_use_id = item.call_id.ok_or_else(missing)?;
                let reply = reply(&item.output, &pointer)?;
                self.answer(CallAnswer { tool_use_id, pointer, reply });
            }
            Some("mcp_approval_response") => {
                let (id, reply) = decision(item, &pointer)?;
                self.answer(CallAnswer { tool_use_id: id, pointer, reply });
            }
            // The output of a tool that the service has not called.
            Some(kind) if kind.ends_with("_output") => {
                let problem = format!(
                    "is {kind:?}; allowed: message, function_call_output, mcp_approval_response, \
                     and items of earlier responses"
                );
                return Err(ApiError::field(&format!("{pointer}/type"), problem));
            }
            // An item of an earlier response, which the service has itself.
            Some(_) => self.last = Some(Role::Assistant),
        }
        Ok(())
    }

    fn message(&mut self, role: Role, content: Value) {
        if role == Role::Assistant {
            self.answers.given.clear();
        }
        let is_next = role == Role::User && self.last == Some(Role::User);
        // System messages have no effect on the order.
        if role != Role::System {
            self.last = Some(role);
        }
        if let Some(before) = self.messages.last_mut().filter(|it| is_next && it.role == role) {
            let mut parts = parts_of(before.content.take());
            parts.extend(parts_of(content));
            before.content = parts.into();
            return;
        }
        self.messages.push(CompletionMessage::new(role, plain(content)));
    }

    fn answer(&mut self, answer: CallAnswer) {
        self.last = Some(Role::Tool);
        self.answers.given.push(answer);
    }
}

/// The parts of a content.
fn parts_of(content: Value) -> Vec<Value> {
    match content {
        Value::Array(parts) => parts,
        Value::String(text) => vec![json!({ "type": "input_text", "text": text })],
        Value::Null => Vec::new(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Object(_)) => vec![other],
    }
}

/// A content, as a text if it is one: clients send the same message in both ways.
fn plain(content: Value) -> Value {
    let text = content.as_array().and_then(|parts| match &**parts {
        [part] if part.get("type").is_some_and(|kind| kind == "input_text") => {
            part.get("text").and_then(Value::as_str)
        }
        _ => None,
    });
    match text {
        Some(text) => Value::String(text.to_owned()),
        None => content,
    }
}

/// The result of a call: a text, or parts.
fn reply(output: &Value, pointer: &str) -> Result<CallReply, ApiError> {
    match output {
        Value::String(text) => CallReply::text(text, false),
        Value::Array(_) => {
            let blocks = blocks(output, &format!("{pointer}/output"))?;
            let output = to_raw_value(&blocks);
            let output = output.map_err(|error| ApiError::Internal(error.to_string()))?;
            Ok(CallReply::Result { output: Some(output), is_error: false })
        }
        Value::Null => Err(ApiError::field(&format!("{pointer}/output"), "is missing")),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            CallReply::text(&output.to_string(), false)
        }
    }
}

/// The decision on a call, and the id of the call.
fn decision(item: Item, pointer: &str) -> Result<(String, CallReply), ApiError> {
    let missing = |name: &str| ApiError::field(&format!("{pointer}/{name}"), "is missing");
    let id = item.approval_request_id.ok_or_else(|| missing("approval_request_id"))?;
    let id = id.strip_prefix(APPROVAL_PREFIX).unwrap_or(&id).to_owned();
    let is_allowed = item.approve.ok_or_else(|| missing("approve"))?;
    let decision = if is_allowed { Decision::Allow } else { Decision::Deny };
    let message = item.reason.filter(|reason| !is_allowed && !reason.is_empty());
    let (input, remember) = (None, None);
    Ok((id, CallReply::Decision(ApprovalDecision { decision, message, input, remember })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(input: Value) -> InputItems {
        InputItems::of(input).unwrap()
    }

    #[test]
    fn messages_of_the_user_without_an_item_between_them_are_one() {
        let text = |text: &str| json!({ "type": "input_text", "text": text });
        let user = |content: Value| json!({ "role": "user", "content": content });
        let reply = json!({ "type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
            "content": [{ "type": "output_text", "text": "Hello.", "annotations": [] }] });
        let all = items(json!([
            user(json!([text("Hi")])),
            reply,
            user(json!("A")),
            user(json!([text("B")]))
        ]));
        let contents: Vec<&Value> = all.messages.iter().map(|it| &it.content).collect();
        assert_eq!(contents[0], "Hi");
        assert_eq!(contents[2], &json!([text("A"), text("B")]));
        assert_eq!((contents.len(), all.last), (3, Some(Role::User)));
        assert_eq!(items(json!("Hi")).messages[0].content, "Hi");
    }

    #[test]
    fn the_answers_are_those_after_the_last_message() {
        let call = |id: &str| json!({ "type": "function_call", "call_id": id, "name": "f", "arguments": "{}" });
        let output =
            |id: &str| json!({ "type": "function_call_output", "call_id": id, "output": "1" });
        let approval = json!({ "type": "mcp_approval_response", "approval_request_id": "mcpr_c", "approve": true });
        let reply = json!({ "role": "assistant", "content": "Done." });
        let all = json!([{ "role": "user", "content": "Hi" }, call("x"), output("x"), reply,
            call("a"), output("a"), call("b"), output("b"), approval]);
        let all = items(all);
        let ids: Vec<&str> = all.answers.given.iter().map(|it| &*it.tool_use_id).collect();
        assert_eq!((ids, all.last), (vec!["a", "b", "c"], Some(Role::Tool)));
    }

    #[test]
    fn an_output_of_an_unknown_tool_is_refused() {
        for item in [
            json!({ "type": "computer_call_output", "call_id": "a", "output": {} }),
            json!({ "type": "function_call_output", "output": "1" }),
            json!({ "type": "mcp_approval_response", "approval_request_id": "a" }),
            json!({ "content": "Hi" }),
        ] {
            assert!(InputItems::of(json!([item])).is_err(), "{item}");
        }
        assert!(InputItems::of(json!({})).is_err());
    }
}
