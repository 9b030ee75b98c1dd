//! The changes of a step, and its result.

use super::call_record::CallRecord;
use crate::domain::event::{Frame, NewEvent};
use crate::domain::message::Message;
use crate::domain::outcome::Outcome;
use crate::domain::permission::PermissionMode;
use crate::domain::request::RequestRecord;
use crate::domain::run_status::RunStatus;
use crate::domain::state_change::StateChange;
use crate::domain::stop_reason::StopReason;
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::store::sub_agents::SubAgentRow;

/// A message to be appended to the history.
#[derive(Debug)]
pub struct NewMessage {
    /// The model's, the client's or our ID.
    pub message_id: String,
    /// The model that wrote it.
    pub model: Option<String>,
    /// Role, blocks, stop reason, usage.
    pub message: Message,
}

/// The changes of one step. Empty members change nothing.
#[derive(Debug, Clone, Copy)]
pub struct StepCommit<'a> {
    /// Messages to append. If calls are planned, the first message contains them.
    pub messages: &'a [NewMessage],
    /// The calls of the appended assistant message.
    pub planned: &'a [ToolCall],
    /// The message whose calls are recorded, if it is not one of this step.
    pub recorded_message_seq: i32,
    /// Changes of its calls. If calls are planned, the ends of these calls.
    pub recorded: &'a [CallRecord],
    /// Events to append.
    pub events: &'a [NewEvent],
    /// The number of those that belong to the first message, if a second one follows with its results.
    pub reply_events: Option<usize>,
    /// The usage of an answered request. A request without a reply has its usage in `request`.
    pub usage: Option<Usage>,
    /// The request that ended, with or without a reply.
    pub request: Option<&'a RequestRecord>,
    /// True if the session's owner may have a budget. A step that knows of none is skipped if there is
    /// one by now.
    pub is_budgeted: bool,
    /// True if the run has made progress; a run that crashes its workers makes none.
    pub is_progress: bool,
    /// True if the run leaves the queue with this step.
    pub dequeues: bool,
    /// The final status and the outcome of the run.
    pub settles: Option<(RunStatus, &'a Outcome)>,
    /// The answers that the run awaits from now on, without a worker.
    pub waits: Option<&'a StopReason>,
    /// Other changes of the session.
    pub state_changes: &'a [StateChange],
    /// Sub-agents to start.
    pub sub_agents: &'a [SubAgentRow],
}

impl Default for StepCommit<'_> {
    fn default() -> Self {
        Self {
            messages: &[],
            planned: &[],
            recorded_message_seq: 0,
            recorded: &[],
            events: &[],
            reply_events: None,
            usage: None,
            request: None,
            is_budgeted: true,
            is_progress: true,
            dequeues: false,
            settles: None,
            waits: None,
            state_changes: &[],
            sub_agents: &[],
        }
    }
}

/// The result of a committed step.
#[derive(Debug)]
pub struct Committed {
    /// The events, to be published.
    pub frames: Vec<Frame>,
    /// Queued runs of the session.
    pub queued: i32,
    /// True if the session's owner has a budget.
    pub is_budgeted: bool,
    /// The session's permission mode before the state changes of the step, if it was changed.
    pub permission_mode: Option<PermissionMode>,
}

impl StepCommit<'_> {
    /// Returns true if one statement writes the whole step.
    pub fn is_one_statement(&self) -> bool {
        let is_read = |change: &StateChange| matches!(change, StateChange::FileRead { .. });
        self.state_changes.iter().all(is_read)
            && self.waits.is_none()
            && self.sub_agents.is_empty()
            && !self.has_end_reasons()
    }

    pub(super) fn has_end_reasons(&self) -> bool {
        self.recorded.iter().any(|record| record.end_reason.is_some())
    }
}
