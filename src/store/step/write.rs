//! The statement that writes a step.

use jiff_sqlx::Timestamp;
use sqlx::PgConnection;

use super::columns::{CallColumns, MessageColumns, PlannedColumns};
use super::{Committed, StepCommit};
use crate::domain::claim::Fence;
use crate::domain::event::Stamp;
use crate::domain::ids::SessionId;
use crate::domain::permission::PermissionMode;
use crate::domain::run_status::RunStatus;
use crate::domain::storable::storable_json_of;
use crate::store::events::{Columns, encode};
use crate::store::{StoreError, unreadable};

struct Row {
    last_seq: Option<i64>,
    queued: i32,
    permission_mode: Option<String>,
    now: Timestamp,
    is_budgeted: bool,
}

/// The new status of a run, its outcome, and the stop reason of its session, as stored.
#[derive(Default)]
struct Settlement {
    status: Option<&'static str>,
    outcome: Option<String>,
    stop_reason: Option<String>,
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

/// Writes a step, without the parts of it that need statements of their own.
pub(super) async fn write(
    conn: &mut PgConnection,
    session_id: SessionId,
    fence: Fence,
    steps: i32,
    step: &StepCommit<'_>,
) -> Result<Option<Committed>, StoreError> {
    let Some(row) = execute(conn, session_id, fence, steps, step).await? else { return Ok(None) };
    let first = Stamp {
        session_id,
        run_id: Some(fence.run_id),
        seq: row.last_seq.unwrap_or_default() + 1,
        created_at: row.now.to_jiff(),
    };
    Ok(Some(Committed {
        frames: encode(step.events, &first),
        queued: row.queued,
        is_budgeted: row.is_budgeted,
        permission_mode: row.permission_mode.as_deref().and_then(PermissionMode::parse),
    }))
}

async fn execute(
    conn: &mut PgConnection,
    session_id: SessionId,
    fence: Fence,
    steps: i32,
    step: &StepCommit<'_>,
) -> Result<Option<Row>, StoreError> {
    let usage = step.usage.or(step.request.map(|request| request.usage)).unwrap_or_default();
    let settlement = Settlement::of(step)?;
    let events = Columns::of(step.events);
    let messages = MessageColumns::of(step.messages)?;
    let calls = CallColumns::of(step.recorded)?;
    let request = step.request.map(storable_json_of).transpose();
    let planned = PlannedColumns::of(step.planned);
    let query = query_file_named!(Row, "src/store/step.sql", {
        session_id: session_id.as_uuid(), run_id: fence.run_id.as_uuid(),
        attempt: fence.attempt, worker: fence.worker.as_uuid(), steps: steps,
        is_progress: step.is_progress, dequeued: i32::from(step.dequeues),
        status: settlement.status, outcome: settlement.outcome,
        stop_reason: settlement.stop_reason,
        model_requests: i32::from(step.usage.is_some()),
        input_tokens: usage.input_tokens,
        cache_creation_input_tokens: usage.cache_creation_input_tokens,
        cache_read_input_tokens: usage.cache_read_input_tokens,
        output_tokens: usage.output_tokens,
        cache_creation_1h_input_tokens: usage.cache_creation_1h_input_tokens,
        thinking_tokens: usage.thinking_tokens,
        web_search_requests: usage.web_search_requests,
        web_fetch_requests: usage.web_fetch_requests,
        cost: step.request.and_then(|request| request.cost),
        request: request.map_err(unreadable("requests", "form"))?,
        event_ids: &events.ids as _, event_types: &events.kinds as _,
        event_bodies: &events.bodies as _,
        message_roles: &messages.roles as _, message_ids: &messages.ids as _,
        message_contents: &messages.contents as _, message_models: &messages.models as _,
        message_stop_reasons: &messages.stop_reasons as _,
        message_usages: &messages.usages as _,
        planned_ids: &planned.ids as _, planned_names: &planned.names as _,
        recorded_message_seq: step.recorded_message_seq,
        call_ids: &calls.ids as _, call_states: &calls.states as _,
        call_results: &calls.results as _, call_executions: &calls.executions,
        call_hashes_before: &calls.hashes_before as _,
        call_hashes_after: &calls.hashes_after as _,
        call_change_paths: &calls.change_paths as _,
        call_change_results: &calls.change_results as _,
        call_error_types: &calls.error_types as _, call_awaits: &calls.awaits as _,
        call_answer_ins: &calls.answer_ins as _, call_input_hashes: &calls.input_hashes as _,
        call_sandboxes: &calls.sandboxes as _, call_wait_reasons: &calls.wait_reasons as _,
        call_diffs: &calls.diffs as _, call_sources: &calls.sources as _,
        call_sub_agent_runs: &calls.sub_agent_runs as _,
        message_stop_sequences: &messages.stop_sequences as _,
    });
    Ok(query.fetch_optional(conn).await?)
}
