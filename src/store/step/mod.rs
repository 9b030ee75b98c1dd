//! Steps: the only way in which a worker writes. A step is committed as a whole, under its fence.
//!
//! Messages, ledger rows, events and the state of the run change in a single statement. So no crash
//! leaves an assistant message without its ledger rows, and a worker that lost its claim writes
//! nothing. The statement is also a single round trip, and writes steps of many runs for little more
//! than the cost of one.

mod call_record;
mod columns;
mod commit_status;
mod encoded;
mod end_reasons;
mod write;

use sqlx::{Connection as _, PgConnection};

use super::sub_agents::{self, SubAgentRow};
use super::{StoreError, session_state};
use crate::domain::claim::Fence;
use crate::domain::event::{Frame, NewEvent};
use crate::domain::ids::{RunId, SessionId};
use crate::domain::message::Message;
use crate::domain::outcome::Outcome;
use crate::domain::permission::PermissionMode;
use crate::domain::request::RequestRecord;
use crate::domain::run_status::RunStatus;
use crate::domain::state_change::StateChange;
use crate::domain::stop_reason::StopReason;
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
pub use call_record::{CallRecord, ChangeRecord, NewWait};
pub use commit_status::{CommitStatus, commit_status};
pub use encoded::EncodedStep;
pub use write::{Written, WrittenStep, write};

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
    /// The message whose calls are recorded.
    pub recorded_message_seq: i32,
    /// Changes of its calls.
    pub recorded: &'a [CallRecord],
    /// Events to append.
    pub events: &'a [NewEvent],
    /// The usage of an answered request. A request without a reply has its usage in `request`.
    pub usage: Option<Usage>,
    /// The request that ended, with or without a reply.
    pub request: Option<&'a RequestRecord>,
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
            usage: None,
            request: None,
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

    fn has_end_reasons(&self) -> bool {
        self.recorded.iter().any(|record| record.end_reason.is_some())
    }
}

/// Commits the step that follows the first `steps` ones. Returns `None`, and writes nothing, if the
/// worker has lost its claim.
pub async fn commit(
    conn: &mut PgConnection,
    session_id: SessionId,
    fence: Fence,
    steps: i32,
    step: &StepCommit<'_>,
) -> Result<Option<Committed>, StoreError> {
    let encoded = EncodedStep::of(session_id, fence, steps, step)?;
    if step.is_one_statement() {
        match write_one(conn, &encoded).await? {
            Written::Committed(written) => return Ok(Some(written.with_events(step.events))),
            Written::Fenced => return Ok(None),
            Written::Skipped => {}
        }
    }
    let mut transaction = conn.begin().await?;
    let written = write_locked(&mut transaction, &encoded).await?;
    if written.is_some() {
        session_state::store(&mut transaction, session_id, step.state_changes).await?;
        if step.has_end_reasons() {
            end_reasons::store(&mut transaction, session_id, step).await?;
        }
        for sub_agent in step.sub_agents {
            sub_agents::insert(&mut transaction, (session_id, fence.run_id), sub_agent).await?;
        }
        if step.waits.is_some() {
            plan_wake(&mut transaction, session_id, fence.run_id).await?;
        }
    }
    transaction.commit().await?;
    Ok(written.map(|written| written.with_events(step.events)))
}

/// Writes a step of a session after other transactions have released it.
async fn write_locked(
    transaction: &mut PgConnection,
    step: &EncodedStep,
) -> Result<Option<WrittenStep>, StoreError> {
    let mut written = write_one(transaction, step).await?;
    if matches!(written, Written::Skipped) {
        let session_id = step.session_id.as_uuid();
        sqlx::query!("SELECT FROM sessions WHERE id = $1 FOR NO KEY UPDATE", session_id)
            .fetch_optional(&mut *transaction)
            .await?;
        written = write_one(transaction, step).await?;
    }
    Ok(match written {
        Written::Committed(written) => Some(written),
        // A session that is still not found is deleted.
        Written::Fenced | Written::Skipped => None,
    })
}

async fn write_one(conn: &mut PgConnection, step: &EncodedStep) -> Result<Written, StoreError> {
    let written = write(conn, &[step]).await?;
    Ok(written.into_iter().next().unwrap_or(Written::Fenced))
}

/// Sets the time at which a waiting run continues: at once if its calls were answered meanwhile or
/// its cancellation was requested, otherwise at the first deadline of its open calls.
async fn plan_wake(
    conn: &mut PgConnection,
    session_id: SessionId,
    run_id: RunId,
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE runs SET wake_at = CASE WHEN cancel_requested_at IS NULL THEN coalesce(
             (SELECT min(c.answer_by) FROM tool_calls c
              WHERE c.session_id = $2 AND c.run_id = $1 AND c.state = 'planned'
                AND c.awaits IS NOT NULL AND c.decision IS NULL),
             now()) ELSE now() END
         WHERE id = $1",
        run_id.as_uuid(),
        session_id.as_uuid(),
    )
    .execute(conn)
    .await?;
    Ok(())
}
