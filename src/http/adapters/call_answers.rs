//! Answers of a client to calls that wait: decisions and results.

use std::collections::HashSet;

use serde_json::value::{RawValue, to_raw_value};

use crate::domain::pending_call::PendingCall;
use crate::http::error::ApiError;
use crate::service::answers::{ApprovalDecision, ToolResultInput, parse_results};
use crate::service::client_events::EventStep;

/// The answers of one request, in its order.
#[derive(Debug, Default)]
pub(in crate::http) struct CallAnswers {
    pub(in crate::http) given: Vec<CallAnswer>,
    /// A JSON pointer to the answers.
    pub(in crate::http) pointer: String,
    /// The name that the protocol gives to the id of a call.
    pub(in crate::http) id_member: &'static str,
}

/// An answer to a call.
#[derive(Debug)]
pub(in crate::http) struct CallAnswer {
    pub(in crate::http) tool_use_id: String,
    /// A JSON pointer to the answer.
    pub(in crate::http) pointer: String,
    pub(in crate::http) reply: CallReply,
}

/// The content of an answer.
#[derive(Debug)]
pub(in crate::http) enum CallReply {
    /// A decision on a call that needs an approval.
    Decision(ApprovalDecision),
    /// The result of a tool that the client runs.
    Result { output: Option<Box<RawValue>>, is_error: bool },
}

impl CallReply {
    /// A result that consists of a text.
    pub(in crate::http) fn text(text: &str, is_error: bool) -> Result<Self, ApiError> {
        let output = to_raw_value(text).map_err(|error| ApiError::Internal(error.to_string()))?;
        Ok(Self::Result { output: Some(output), is_error })
    }
}

impl CallAnswers {
    /// Returns true if there are none.
    pub(in crate::http) fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// Returns true if a call has an answer.
    pub(in crate::http) fn has(&self, tool_use_id: &str) -> bool {
        self.given.iter().any(|answer| answer.tool_use_id == tool_use_id)
    }

    /// Returns true if each of these calls has an answer.
    pub(in crate::http) fn answer_all(&self, pending: &[PendingCall]) -> bool {
        pending.iter().all(|call| self.has(&call.tool_use_id))
    }

    /// The answers to these calls. Without one, all of them: they may be repeated.
    #[must_use]
    pub(in crate::http) fn of_waiting(mut self, pending: &[PendingCall]) -> Self {
        let is_pending =
            |answer: &CallAnswer| pending.iter().any(|call| call.tool_use_id == answer.tool_use_id);
        if self.given.iter().any(is_pending) {
            self.given.retain(is_pending);
        }
        self
    }

    /// The calls whose results are among the answers.
    pub(in crate::http) fn results(&self) -> HashSet<String> {
        let results = self.given.iter().filter(|it| matches!(it.reply, CallReply::Result { .. }));
        results.map(|answer| answer.tool_use_id.clone()).collect()
    }

    /// Returns true if a decision is among the answers.
    pub(in crate::http) fn has_decision(&self) -> bool {
        self.given.iter().any(|answer| matches!(answer.reply, CallReply::Decision(_)))
    }

    /// The answers as events of a client.
    pub(in crate::http) fn into_steps(self) -> Result<Vec<EventStep>, ApiError> {
        let (mut steps, mut results) = (Vec::new(), Vec::new());
        for CallAnswer { tool_use_id, pointer, reply } in self.given {
            match reply {
                CallReply::Decision(decision) => {
                    decision.validate().map_err(|error| error.under(&pointer))?;
                    steps.push(EventStep::Confirm { pointer, tool_use_id, decision });
                }
                CallReply::Result { output: content, is_error } => {
                    results.push(ToolResultInput { pointer, tool_use_id, content, is_error });
                }
            }
        }
        if !results.is_empty() {
            steps.push(EventStep::Results(parse_results(results, self.id_member)?));
        }
        Ok(steps)
    }
}
