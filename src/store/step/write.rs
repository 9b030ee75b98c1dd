//! The statement that writes steps.

use jiff_sqlx::Timestamp;
use sqlx::PgConnection;

use super::columns::{
    CallColumns, EventColumns, MessageColumns, PlannedColumns, ReadColumns, StepColumns,
    UsageColumns,
};
use super::encoded::EncodedStep;
use super::step_commit::Committed;
use crate::domain::event::{NewEvent, Stamp};
use crate::domain::permission::PermissionMode;
use crate::store::StoreError;
use crate::store::events::encode;

struct Row {
    is_locked: bool,
    is_written: bool,
    last_seq: Option<i64>,
    queued: Option<i32>,
    permission_mode: Option<String>,
    now: Timestamp,
    is_budgeted: bool,
}

/// What became of a step.
#[derive(Debug)]
pub enum Written {
    /// It was written.
    Committed(WrittenStep),
    /// The worker has lost its claim; nothing was written.
    Fenced,
    /// Another transaction has locked the session, or the session is deleted; nothing was written.
    Skipped,
}

/// What the database knows of a step that was written.
#[derive(Debug)]
pub struct WrittenStep {
    first_event: Stamp,
    queued: i32,
    is_budgeted: bool,
    permission_mode: Option<PermissionMode>,
}

impl WrittenStep {
    /// The result of the step, whose events are encoded for their readers.
    pub fn with_events(self, events: &[NewEvent]) -> Committed {
        let Self { first_event, queued, is_budgeted, permission_mode } = self;
        Committed { frames: encode(events, &first_event), queued, is_budgeted, permission_mode }
    }
}

/// Writes steps of several sessions, without the parts of them that need statements of their own.
/// Returns what became of each, in their order. An error concerns all of them.
pub async fn write(
    conn: &mut PgConnection,
    steps: &[&EncodedStep],
) -> Result<Vec<Written>, StoreError> {
    let rows = execute(conn, steps).await?;
    Ok(rows.iter().zip(steps).map(|(row, step)| written(row, step)).collect())
}

fn written(row: &Row, step: &EncodedStep) -> Written {
    if !row.is_locked {
        return Written::Skipped;
    }
    if !row.is_written {
        return Written::Fenced;
    }
    Written::Committed(WrittenStep {
        first_event: Stamp {
            session_id: step.session_id,
            run_id: Some(step.fence.run_id),
            seq: row.last_seq.unwrap_or_default() + 1,
            created_at: row.now.to_jiff(),
        },
        queued: row.queued.unwrap_or_default(),
        is_budgeted: row.is_budgeted,
        permission_mode: row.permission_mode.as_deref().and_then(PermissionMode::parse),
    })
}

async fn execute(
    conn: &mut PgConnection,
    encoded: &[&EncodedStep],
) -> Result<Vec<Row>, StoreError> {
    let steps = StepColumns::of(encoded);
    let usage = UsageColumns::of(encoded);
    let messages = MessageColumns::of(encoded);
    let planned = PlannedColumns::of(encoded);
    let calls = CallColumns::of(encoded);
    let events = EventColumns::of(encoded);
    let reads = ReadColumns::of(encoded);
    let query = query_file_named!(Row, "src/store/step.sql", {
        session_ids: &steps.session_ids, run_ids: &steps.run_ids, attempts: &steps.attempts,
        workers: &steps.workers, steps: &steps.steps, is_progress: &steps.is_progress,
        dequeued: &steps.dequeued, statuses: &steps.statuses as _,
        outcomes: &steps.outcomes as _, stop_reasons: &steps.stop_reasons as _,
        model_requests: &usage.model_requests, input_tokens: &usage.input_tokens,
        cache_creation_input_tokens: &usage.cache_creation_input_tokens,
        cache_read_input_tokens: &usage.cache_read_input_tokens,
        output_tokens: &usage.output_tokens,
        cache_creation_1h_input_tokens: &usage.cache_creation_1h_input_tokens,
        thinking_tokens: &usage.thinking_tokens,
        web_search_requests: &usage.web_search_requests,
        web_fetch_requests: &usage.web_fetch_requests, cost: &usage.cost as _,
        requests: &steps.requests as _, recorded_message_seqs: &steps.recorded_message_seqs,
        event_counts: &steps.event_counts, message_counts: &steps.message_counts,
        message_steps: &messages.steps, message_positions: &messages.positions,
        message_roles: &messages.roles as _, message_ids: &messages.ids as _,
        message_contents: &messages.contents as _, message_models: &messages.models as _,
        message_stop_reasons: &messages.stop_reasons as _,
        message_usages: &messages.usages as _,
        message_stop_sequences: &messages.stop_sequences as _,
        planned_steps: &planned.steps, planned_positions: &planned.positions,
        planned_ids: &planned.ids as _, planned_names: &planned.names as _,
        call_steps: &calls.steps, call_ids: &calls.ids as _, call_states: &calls.states as _,
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
        event_steps: &events.steps, event_positions: &events.positions,
        event_ids: &events.ids as _, event_types: &events.kinds as _,
        event_bodies: &events.bodies as _,
        read_steps: &reads.steps, read_paths: &reads.paths as _, read_hashes: &reads.hashes as _,
    });
    Ok(query.fetch_all(conn).await?)
}
