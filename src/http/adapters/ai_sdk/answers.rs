//! Answers to calls in an assistant message that the client has changed: decisions and results.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::message::ChatMessage;
use crate::domain::pending_call::PendingCall;
use crate::domain::permission::Decision;
use crate::http::error::ApiError;
use crate::service::answers::{ApprovalDecision, ToolResultInput, parse_results};
use crate::service::client_events::EventStep;

/// The answers of one message, in the order of its parts.
#[derive(Debug, Default)]
pub(super) struct Answers {
    given: Vec<Answer>,
    /// A JSON pointer to the message.
    pub(super) pointer: String,
}

#[derive(Debug)]
struct Answer {
    tool_use_id: String,
    pointer: String,
    reply: Reply,
}

#[derive(Debug)]
enum Reply {
    Decision(ApprovalDecision),
    Result { output: Option<Box<RawValue>>, is_error: bool },
}

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

impl Answers {
    /// The answers in the assistant message with this id, otherwise in the last one. Each of the inputs
    /// must belong to a call that the message allows: a call must not run with another input than the
    /// user has approved.
    pub(super) fn of(
        messages: &[(String, ChatMessage)],
        message_id: Option<&str>,
        mut inputs: BTreeMap<String, Value>,
    ) -> Result<Self, ApiError> {
        let mut replies = messages.iter().rev().filter(|(_, it)| it.role == "assistant");
        let named = replies.clone().find(|(_, it)| Some(it.id.as_str()) == message_id);
        let Some((pointer, message)) = named.or_else(|| replies.next()) else {
            check_used(&inputs)?;
            return Ok(Self::default());
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
                given.push(Answer { tool_use_id, pointer, reply });
            }
        }
        check_used(&inputs)?;
        Ok(Self { given, pointer: pointer.clone() })
    }

    /// Returns true if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// Returns true if each of these calls has an answer.
    pub(super) fn answer_all(&self, pending: &[PendingCall]) -> bool {
        let is_answered = |call: &PendingCall| {
            self.given.iter().any(|answer| answer.tool_use_id == call.tool_use_id)
        };
        pending.iter().all(is_answered)
    }

    /// The answers to these calls. Without one, all of them: they may be repeated.
    #[must_use]
    pub(super) fn of_waiting(mut self, pending: &[PendingCall]) -> Self {
        let is_pending =
            |answer: &Answer| pending.iter().any(|call| call.tool_use_id == answer.tool_use_id);
        if self.given.iter().any(is_pending) {
            self.given.retain(is_pending);
        }
        self
    }

    /// The calls whose results are among the answers.
    pub(super) fn results(&self) -> HashSet<String> {
        let results = self.given.iter().filter(|it| matches!(it.reply, Reply::Result { .. }));
        results.map(|answer| answer.tool_use_id.clone()).collect()
    }

    /// The answers as events of a client.
    pub(super) fn into_steps(self) -> Result<Vec<EventStep>, ApiError> {
        let (mut steps, mut results) = (Vec::new(), Vec::new());
        for Answer { tool_use_id, pointer, reply } in self.given {
            match reply {
                Reply::Decision(decision) => {
                    decision.validate().map_err(|error| error.under(&pointer))?;
                    steps.push(EventStep::Confirm { pointer, tool_use_id, decision });
                }
                Reply::Result { output: content, is_error } => {
                    results.push(ToolResultInput { pointer, tool_use_id, content, is_error });
                }
            }
        }
        if !results.is_empty() {
            steps.push(EventStep::Results(parse_results(results, "toolCallId")?));
        }
        Ok(steps)
    }
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

    fn reply(self, input: Option<&Value>) -> Result<Option<Reply>, ApiError> {
        let is_client = self.provider_executed != Some(true);
        let raw = |value: &Value| {
            to_raw_value(value).map_err(|error| ApiError::Internal(error.to_string()))
        };
        Ok(match (self.state.as_str(), self.approval) {
            ("approval-responded", Some(Approval { approved: Some(is_allowed), reason })) => {
                Some(Reply::Decision(ApprovalDecision {
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
                Some(Reply::Result { output: Some(raw(&text.into())?), is_error: false })
            }
            ("output-error", _) if is_client => {
                let text = self.error_text.unwrap_or_default();
                Some(Reply::Result { output: Some(raw(&text.into())?), is_error: true })
            }
            _ => None,
        })
    }
}
