//! The one way in which a worker writes: a step, committed whole and under its fence.
//!
//! Messages, ledger rows, events and the state of the run change in a single statement, so that
//! no crash can leave an assistant message without its ledger rows, and no worker that lost its
//! claim can write anything. It is also one round trip, which is most of what a step costs.

mod columns;

use std::time::Duration;

use jiff_sqlx::Timestamp;
use sqlx::{Connection as _, PgConnection};

use super::events::{Columns, encode};
use super::sub_agents::{self, NewChild};
use super::{StoreError, notes, unreadable};
use crate::domain::claim::Fence;
use crate::domain::event::{Frame, NewEvent, Stamp};
use crate::domain::ids::{RunId, SessionId};
use crate::domain::message::Message;
use crate::domain::note::Note;
use crate::domain::permission::{Awaits, PermissionMode};
use crate::domain::request::RequestRecord;
use crate::domain::run::{Outcome, RunStatus, StopReason};
use crate::domain::source::Source;
use crate::domain::tool::{CallState, ToolCall};
use crate::domain::tool_error::ToolErrorType;
use crate::domain::usage::Usage;
use columns::{MessageColumns, RecordColumns, Settle};

/// A message to be appended to the history.
#[derive(Debug)]
pub struct NewMessage {
    /// The model's, the client's or our id.
    pub message_id: String,
    /// The model that wrote it.
    pub model: Option<String>,
    /// Role, blocks, stop reason, usage.
    pub message: Message,
}

/// A change of one row of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecord {
    /// The model's id of the call.
    pub tool_use_id: String,
    /// Where it stands now.
    pub state: CallState,
    /// What the model reads, once it has ended.
    pub result: Option<String>,
    /// Whether the tool is called, or was, with this change.
    pub is_execution: bool,
    /// The change of a file that begins.
    pub change: Option<ChangeRecord>,
    /// Of what type the failure was.
    pub error_type: Option<ToolErrorType>,
    /// What the call waits for from now on.
    pub wait: Option<NewWait>,
    /// SHA-256 of the input that runs, or is to be decided on.
    pub input_hash: Option<Vec<u8>>,
    /// In what confinement the call ran.
    pub sandbox: Option<&'static str>,
    /// What the result rests on.
    pub sources: Vec<Source>,
    /// The run of the sub-agent that begins with it.
    pub child_run: Option<RunId>,
}

/// What a call waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWait {
    /// Who must act before the call goes on.
    pub awaits: Awaits,
    /// How long there is for that.
    pub within: Duration,
    /// Why somebody is asked.
    pub reason: Option<String>,
    /// What would change of the file, as a unified diff.
    pub diff: Option<String>,
}

/// The change of a file as it is recorded before it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeRecord {
    /// The file, relative to the workspace.
    pub path: String,
    /// SHA-256 before; none if there is no file.
    pub before: Option<Vec<u8>>,
    /// SHA-256 after.
    pub after: Vec<u8>,
    /// What the model reads when the change has happened.
    pub result: String,
}

impl CallRecord {
    /// A record that says where a call stands, and nothing else.
    pub fn new(tool_use_id: &str, state: CallState) -> Self {
        Self {
            tool_use_id: tool_use_id.to_owned(),
            state,
            result: None,
            is_execution: false,
            change: None,
            error_type: None,
            wait: None,
            input_hash: None,
            sandbox: None,
            sources: Vec::new(),
            child_run: None,
        }
    }
}

/// All that one step changes. What is empty changes nothing.
#[derive(Debug, Clone, Copy)]
pub struct StepCommit<'a> {
    /// Messages to append. If there are calls to plan, the first one asks for them.
    pub messages: &'a [NewMessage],
    /// Calls that the appended assistant message asks for.
    pub planned: &'a [ToolCall],
    /// The message whose calls are recorded.
    pub recorded_message_seq: i32,
    /// Changes of its calls.
    pub recorded: &'a [CallRecord],
    /// Events to append.
    pub events: &'a [NewEvent],
    /// What a finished request used.
    pub usage: Option<Usage>,
    /// The request that ended, with a reply or without.
    pub request: Option<&'a RequestRecord>,
    /// Whether the run got further: a run on which worker after worker dies does not.
    pub is_progress: bool,
    /// Whether the run leaves the queue with this step.
    pub dequeues: bool,
    /// How the run settles.
    pub settles: Option<(RunStatus, &'a Outcome)>,
    /// For what the run waits from now on, in nobody's hands.
    pub waits: Option<&'a StopReason>,
    /// What calls leave in the session.
    pub notes: &'a [Note],
    /// Sub-agents that begin.
    pub children: &'a [NewChild],
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
            notes: &[],
            children: &[],
        }
    }
}

/// What a committed step made.
#[derive(Debug)]
pub struct Committed {
    /// The events, to be published.
    pub frames: Vec<Frame>,
    /// Runs of the session that wait.
    pub queued: i32,
    /// Whether the session's owner has a budget.
    pub is_budgeted: bool,
    /// The session's permission mode before the notes of the step, if something has changed it.
    pub permission_mode: Option<PermissionMode>,
}

/// What became of a step whose commit was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landed {
    /// It was not written, and may be sent again.
    No,
    /// It was written.
    Yes {
        /// Runs of the session that wait.
        queued: i32,
        /// Whether the session's owner has a budget.
        is_budgeted: bool,
        /// The session's permission mode, if something has changed it.
        permission_mode: Option<PermissionMode>,
    },
    /// The worker has lost its claim.
    Fenced,
}

/// Finds out what became of the step after the first `steps` ones. Nobody else writes steps under
/// this fence, so one more than before can only be that one.
pub async fn landed(
    conn: &mut PgConnection,
    fence: Fence,
    steps: i32,
) -> Result<Landed, StoreError> {
    let row = sqlx::query!(
        r#"SELECT r.steps, s.queued, s.permission_mode,
                  r.lease_owner IS NOT DISTINCT FROM $3 AS "is_ours!",
                  EXISTS (SELECT FROM budgets b WHERE b.tenant_id = r.tenant_id) AS "is_budgeted!"
           FROM runs r JOIN sessions s ON s.id = r.session_id
           WHERE r.id = $1 AND r.attempt = $2"#,
        fence.run_id.as_uuid(),
        fence.attempt,
        fence.worker.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(match row {
        // The step that settles a run gives up its lease.
        Some(row) if row.steps > steps => Landed::Yes {
            queued: row.queued,
            is_budgeted: row.is_budgeted,
            permission_mode: row.permission_mode.as_deref().and_then(PermissionMode::parse),
        },
        Some(row) if row.is_ours => Landed::No,
        Some(_) | None => Landed::Fenced,
    })
}

/// Commits the step after the first `steps` ones; none if the worker has lost its claim, in which
/// case nothing was written.
pub async fn commit(
    conn: &mut PgConnection,
    session_id: SessionId,
    fence: Fence,
    steps: i32,
    step: &StepCommit<'_>,
) -> Result<Option<Committed>, StoreError> {
    if step.notes.is_empty() && step.waits.is_none() && step.children.is_empty() {
        return write(conn, session_id, fence, steps, step).await;
    }
    let mut transaction = conn.begin().await?;
    let committed = write(&mut transaction, session_id, fence, steps, step).await?;
    if committed.is_some() {
        notes::keep(&mut transaction, session_id, step.notes).await?;
        for child in step.children {
            sub_agents::insert(&mut transaction, (session_id, fence.run_id), child).await?;
        }
        if step.waits.is_some() {
            plan_wake(&mut transaction, session_id, fence.run_id).await?;
        }
    }
    transaction.commit().await?;
    Ok(committed)
}

/// Says when a run that waits is to be taken up: at once if somebody has answered its calls in
/// the meantime or has asked for the run to stop, or else at the first deadline of those that are
/// open.
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

#[expect(clippy::too_many_lines, reason = "a line for each parameter of the statement")]
async fn write(
    conn: &mut PgConnection,
    session_id: SessionId,
    fence: Fence,
    steps: i32,
    step: &StepCommit<'_>,
) -> Result<Option<Committed>, StoreError> {
    let usage = step.usage.unwrap_or_default();
    let settle = Settle::of(step)?;
    let events = Columns::of(step.events);
    let messages = MessageColumns::of(step.messages)?;
    let records = RecordColumns::of(step.recorded)?;
    let request = step.request.map(serde_json::to_string).transpose();
    let request = request.map_err(unreadable("requests", "form"))?;
    let (planned_ids, planned_names): (Vec<String>, Vec<String>) =
        step.planned.iter().map(|call| (call.tool_use_id.clone(), call.name.clone())).unzip();
    let row = sqlx::query_file!(
        "src/store/step.sql",
        fence.run_id.as_uuid(),
        fence.attempt,
        fence.worker.as_uuid(),
        settle.status as _,
        settle.outcome,
        i32::from(step.usage.is_some()),
        usage.input_tokens,
        usage.cache_creation_input_tokens,
        usage.cache_read_input_tokens,
        usage.output_tokens,
        &events.ids,
        &events.kinds,
        &events.bodies,
        &messages.roles,
        &messages.ids,
        &messages.contents,
        &messages.models as _,
        &messages.stop_reasons as _,
        &messages.usages as _,
        step.recorded_message_seq,
        i32::from(step.dequeues),
        settle.stop_reason,
        &planned_ids,
        &planned_names,
        &records.ids,
        &records.states,
        &records.results as _,
        &records.executions,
        &records.hashes_before as _,
        &records.hashes_after as _,
        step.is_progress,
        session_id.as_uuid(),
        steps,
        &records.change_paths as _,
        &records.change_results as _,
        &records.error_types as _,
        &records.awaits as _,
        &records.answer_ins as _,
        &records.input_hashes as _,
        &records.sandboxes as _,
        &records.wait_reasons as _,
        &records.diffs as _,
        usage.cache_creation_1h_input_tokens,
        usage.thinking_tokens,
        usage.web_search_requests,
        usage.web_fetch_requests,
        request,
        step.request.and_then(|request| request.cost),
        &records.sources as _,
        &records.child_runs as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| {
        let first = Stamp {
            session_id,
            run_id: Some(fence.run_id),
            seq: row.last_seq.unwrap_or_default() + 1,
            created_at: row.now.to_jiff(),
        };
        let frames = encode(step.events, &first);
        let mode = row.permission_mode.as_deref();
        Committed {
            frames,
            queued: row.queued,
            is_budgeted: row.is_budgeted,
            permission_mode: mode.and_then(PermissionMode::parse),
        }
    }))
}
