//! A step as the values that its statement stores. It borrows nothing, so that the task of another
//! run can write it.

use std::collections::BTreeMap;

use super::call_record::CallRecord;
use super::step_commit::{NewMessage, StepCommit};
use crate::domain::claim::Fence;
use crate::domain::event::NewEvent;
use crate::domain::ids::{RunId, SessionId};
use crate::domain::message::Role;
use crate::domain::run_status::RunStatus;
use crate::domain::state_change::StateChange;
use crate::domain::stop_reason::ModelStop;
use crate::domain::storable::{storable_json_of, storable_text};
use crate::domain::tool::ToolCall;
use crate::domain::tool_error::ToolErrorType;
use crate::domain::usage::Usage;
use crate::store::{StoreError, unreadable};

/// A step with the number of the steps before it, ready to be written.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent properties of a step")]
pub struct EncodedStep {
    pub(super) session_id: SessionId,
    pub(super) fence: Fence,
    pub(super) steps: i32,
    pub(super) is_progress: bool,
    pub(super) dequeues: bool,
    pub(super) is_answered: bool,
    pub(super) usage: Usage,
    pub(super) cost: Option<i64>,
    pub(super) is_budgeted: bool,
    pub(super) settlement: Settlement,
    pub(super) request: Option<String>,
    pub(super) messages: Vec<EncodedMessage>,
    pub(super) planned: Vec<EncodedPlan>,
    pub(super) recorded_message_seq: i32,
    pub(super) calls: Vec<EncodedCall>,
    pub(super) events: Vec<NewEvent>,
    /// Paths and hashes of the files that the model has read, each path once.
    pub(super) reads: Vec<(String, Vec<u8>)>,
}

/// The new status of a run, its outcome, and the stop reason of its session.
#[derive(Debug, Default)]
pub(super) struct Settlement {
    pub(super) status: Option<&'static str>,
    pub(super) outcome: Option<String>,
    pub(super) stop_reason: Option<String>,
}

#[derive(Debug)]
pub(super) struct EncodedMessage {
    pub(super) role: &'static str,
    pub(super) id: String,
    pub(super) content: String,
    pub(super) model: Option<String>,
    pub(super) stop_reason: Option<String>,
    pub(super) usage: Option<String>,
    pub(super) stop_sequence: Option<String>,
    /// The number of events of the step up to the last one that reports the message.
    pub(super) event_count: usize,
}

/// A planned call.
#[derive(Debug)]
pub(super) struct EncodedPlan {
    pub(super) id: String,
    pub(super) name: String,
    /// The end of the call, if its result comes with its message.
    pub(super) end: Option<EncodedCall>,
}

/// A change of a row of the ledger.
#[derive(Debug)]
pub(super) struct EncodedCall {
    pub(super) id: String,
    pub(super) state: &'static str,
    pub(super) result: Option<String>,
    pub(super) content: Option<String>,
    pub(super) is_execution: bool,
    pub(super) duration_ms: i64,
    pub(super) hash_before: Option<Vec<u8>>,
    pub(super) hash_after: Option<Vec<u8>>,
    pub(super) change_path: Option<String>,
    pub(super) change_result: Option<String>,
    pub(super) error_type: Option<&'static str>,
    pub(super) awaits: Option<&'static str>,
    pub(super) answer_in: Option<f64>,
    pub(super) input_hash: Option<Vec<u8>>,
    pub(super) sandbox: Option<&'static str>,
    pub(super) wait_reason: Option<String>,
    pub(super) diff: Option<String>,
    pub(super) sources: Option<String>,
    pub(super) sub_agent_run: Option<RunId>,
}

impl EncodedStep {
    /// Encodes the step that follows the first `steps` ones.
    pub fn of(
        session_id: SessionId,
        fence: Fence,
        steps: i32,
        step: &StepCommit<'_>,
    ) -> Result<Self, StoreError> {
        let request = step.request.map(storable_json_of).transpose();
        // Calls that are planned and recorded in one step have no row yet.
        let changed = if step.planned.is_empty() { step.recorded } else { &[] };
        Ok(Self {
            session_id,
            fence,
            steps,
            is_progress: step.is_progress,
            dequeues: step.dequeues,
            is_answered: step.usage.is_some(),
            usage: step.usage.or(step.request.map(|request| request.usage)).unwrap_or_default(),
            cost: step.request.and_then(|request| request.cost),
            is_budgeted: step.is_budgeted,
            settlement: Settlement::of(step)?,
            request: request.map_err(unreadable("requests", "form"))?,
            messages: messages(step)?,
            planned: step
                .planned
                .iter()
                .map(|call| EncodedPlan::of(call, step))
                .collect::<Result<_, _>>()?,
            recorded_message_seq: step.recorded_message_seq,
            calls: changed.iter().map(EncodedCall::of).collect::<Result<_, _>>()?,
            events: step.events.to_vec(),
            reads: reads(step.state_changes),
        })
    }

    /// Returns true if the plain statement has not all parts that the step needs.
    pub(super) fn needs_all_parts(&self) -> bool {
        self.is_budgeted || !self.calls.is_empty()
    }

    /// The approximate size of its texts in bytes.
    pub(super) fn size(&self) -> usize {
        let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let messages = self.messages.iter().map(|message| message.content.len());
        let ended = self.planned.iter().filter_map(|planned| planned.end.as_ref());
        let calls =
            self.calls.iter().chain(ended).map(|call| {
                optional(&call.result) + optional(&call.content) + optional(&call.diff)
            });
        let events = self.events.iter().map(|event| event.body.len());
        optional(&self.request) + messages.chain(calls).chain(events).sum::<usize>()
    }
}

impl Settlement {
    fn of(step: &StepCommit<'_>) -> Result<Self, StoreError> {
        let json = |column| unreadable::<serde_json::Error>("runs", column);
        let stop_reason = |reason| storable_json_of(reason).map(Some).map_err(json("stop_reason"));
        if let Some(awaited) = step.waits {
            let status = Some(RunStatus::RequiresAction.as_str());
            return Ok(Self { status, outcome: None, stop_reason: stop_reason(awaited)? });
        }
        let Some((status, outcome)) = step.settles else { return Ok(Self::default()) };
        Ok(Self {
            status: Some(status.as_str()),
            outcome: Some(storable_json_of(outcome).map_err(json("outcome"))?),
            stop_reason: stop_reason(&outcome.stop_reason)?,
        })
    }
}

impl EncodedMessage {
    fn of(new: &NewMessage, event_count: usize) -> Result<Self, StoreError> {
        let NewMessage { message_id, model, message } = new;
        let usage = match message.role {
            Role::User => None,
            Role::Assistant => Some(
                serde_json::to_string(&message.usage).map_err(unreadable("messages", "usage"))?,
            ),
        };
        let stop_reason = message.stop_reason.as_ref();
        Ok(Self {
            role: message.role.as_str(),
            id: storable(message_id),
            // The bytes that later requests repeat. No statement reads a member of them.
            content: message.content.as_str().to_owned(),
            model: model.as_deref().map(storable),
            stop_reason: stop_reason.map(|reason| storable(reason.as_str())),
            usage,
            stop_sequence: stop_reason.and_then(ModelStop::sequence).map(str::to_owned),
            event_count,
        })
    }
}

impl EncodedPlan {
    fn of(call: &ToolCall, step: &StepCommit<'_>) -> Result<Self, StoreError> {
        let mut records = step.recorded.iter();
        let end = records.find(|record| record.tool_use_id == call.tool_use_id);
        Ok(Self {
            id: storable(&call.tool_use_id),
            name: storable(&call.name),
            end: end.map(EncodedCall::of).transpose()?,
        })
    }
}

impl EncodedCall {
    fn of(record: &CallRecord) -> Result<Self, StoreError> {
        let change = record.change.as_ref();
        let wait = record.wait.as_ref();
        let sources = Some(&record.sources).filter(|sources| !sources.is_empty());
        let sources = sources.map(storable_json_of).transpose();
        Ok(Self {
            id: storable(&record.tool_use_id),
            state: record.state.as_str(),
            result: record.result.as_deref().map(storable),
            content: record.content.clone(),
            is_execution: record.is_execution,
            duration_ms: record.duration_ms,
            hash_before: change.and_then(|change| change.before.clone()),
            hash_after: change.map(|change| change.after.clone()),
            change_path: change.map(|change| storable(&change.path)),
            change_result: change.map(|change| storable(&change.result)),
            error_type: record.error_type.map(ToolErrorType::as_str),
            awaits: wait.map(|wait| wait.awaits.as_str()),
            answer_in: wait.map(|wait| wait.within.as_secs_f64()),
            input_hash: record.input_hash.clone(),
            sandbox: record.sandbox,
            wait_reason: wait.and_then(|wait| wait.reason.as_deref()).map(storable),
            diff: wait.and_then(|wait| wait.diff.as_deref()).map(storable),
            sources: sources.map_err(unreadable("tool_calls", "sources"))?,
            sub_agent_run: record.sub_agent_run,
        })
    }
}

fn messages(step: &StepCommit<'_>) -> Result<Vec<EncodedMessage>, StoreError> {
    let encode = |(index, message)| {
        let of_reply = step.reply_events.filter(|_| index == 0);
        EncodedMessage::of(message, of_reply.unwrap_or(step.events.len()))
    };
    step.messages.iter().enumerate().map(encode).collect()
}

/// The last read of each file.
fn reads(state_changes: &[StateChange]) -> Vec<(String, Vec<u8>)> {
    let mut reads = BTreeMap::new();
    for change in state_changes {
        if let StateChange::FileRead { path, hash } = change {
            reads.insert(storable(path), hash.clone());
        }
    }
    reads.into_iter().collect()
}

fn storable(text: &str) -> String {
    storable_text(text).into_owned()
}
