//! Answers to calls in an assistant message that the client has changed.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::to_raw_value;

use super::message::ChatMessage;
use crate::domain::permission::Decision;
use crate::http::adapters::call_answers::{CallAnswer, CallAnswers, CallReply};
use crate::http::error::ApiError;
use crate::service::answers::ApprovalDecision;

/// A part of an assistant message, as far as it answers a call.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CallPart {
    r#type: String,
    tool_call_id: String,
    state: String,
    approval: Option<Approval>,
    output: Value,
    error_text: Option<String>,
    provider_executed: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Approval {
    approved: Option<bool>,
    reason: Option<String>,
}

/// The answers in the assistant message with this id, otherwise in the last one. Each of the inputs
/// must belong to a call that the message allows: a call must not run with another input than the
/// user has approved.
pub(super) fn answers_of(
    messages: &[(String, ChatMessage)],
    message_id: Option<&str>,
    mut inputs: BTreeMap<String, Value>,
) -> Result<CallAnswers, ApiError> {
    let mut replies = messages.iter().rev().filter(|(_, it)| it.role == "assistant");
    let named = replies.clone().find(|(_, it)| Some(it.id.as_str()) == message_id);
    let Some((pointer, message)) = named.or_else(|| replies.next()) else {
        check_used(&inputs)?;
        return Ok(CallAnswers::default());
    };
    let is_step = |part: &Value| part.get("type").is_some_and(|it| it == "step-start");
    // Calls of earlier steps have their results.
    let first = message.parts.iter().rposition(is_step).unwrap_or(0);
    let mut given = Vec::new();
    for (index, part) in message.parts.iter().enumerate().skip(first) {
        let pointer = format!("{pointer}/parts/{index}");
        let part = CallPart::deserialize(part).unwrap_or_default();
        if !part.is_call() {
            continue;
        }
        let input = if part.is_allowed() { inputs.remove(&part.tool_call_id) } else { None };
        let tool_use_id = part.tool_call_id.clone();
        if let Some(reply) = part.reply(input.as_ref())? {
            given.push(CallAnswer { tool_use_id, pointer, reply });
        }
    }
    check_used(&inputs)?;
    Ok(CallAnswers { given, pointer: pointer.clone(), id_member: "toolCallId" })
}

/// Refuses inputs that no answer has taken.
fn check_used(inputs: &BTreeMap<String, Value>) -> Result<(), ApiError> {
    match inputs.keys().next() {
        Some(id) => {
            let problem = format!("has {id:?}, which is not a call that the message allows");
            Err(ApiError::field("/tool_inputs", problem))
        }
        None => Ok(()),
    }
}

impl CallPart {
    fn is_call(&self) -> bool {
        self.r#type == "dynamic-tool" || self.r#type.starts_with("tool-")
    }

    fn is_allowed(&self) -> bool {
        let approved = self.approval.as_ref().and_then(|approval| approval.approved);
        self.state == "approval-responded" && approved == Some(true)
    }

    fn reply(self, input: Option<&Value>) -> Result<Option<CallReply>, ApiError> {
        let is_client = self.provider_executed != Some(true);
        let raw = |value: &Value| {
            to_raw_value(value).map_err(|error| ApiError::Internal(error.to_string()))
        };
        Ok(match (self.state.as_str(), self.approval) {
            ("approval-responded", Some(Approval { approved: Some(is_allowed), reason })) => {
                Some(CallReply::Decision(ApprovalDecision {
                    decision: if is_allowed { Decision::Allow } else { Decision::Deny },
                    message: reason.filter(|_| !is_allowed),
                    input: input.map(raw).transpose()?,
                    remember: None,
                }))
            }
            ("output-available", _) if is_client => {
                let text = match self.output {
                    Value::String(text) => text,
                    other @ (Value::Null
                    | Value::Bool(_)
                    | Value::Number(_)
                    | Value::Array(_)
                    | Value::Object(_)) => other.to_string(),
                };
                Some(CallReply::text(&text, false)?)
            }
            ("output-error", _) if is_client => {
                let text = self.error_text.unwrap_or_default();
                Some(CallReply::text(&text, true)?)
            }
            _ => None,
        })
    }
}
