//! Giving up: a run that no worker can read, or that crashed too many workers, is settled from its
//! own row.
//!
//! Its open calls get their results in the ledger only. If these are missing in the history, later
//! requests are repaired before they are sent.

use sqlx::{Connection as _, PgConnection};

use super::events::append;
use super::{StoreError, unreadable};
use crate::domain::call_end::{EndReason, INTERRUPTED, RunEnd};
use crate::domain::claim::Fence;
use crate::domain::event::{Frame, NewEvent};
use crate::domain::ids::SessionId;
use crate::domain::outcome::Outcome;

/// Settles a run as failed and appends these events. Returns `None` if the worker has lost its
/// claim.
pub async fn give_up(
    conn: &mut PgConnection,
    session_id: SessionId,
    fence: Fence,
    outcome: &Outcome,
    events: &[NewEvent],
) -> Result<Option<Vec<Frame>>, StoreError> {
    let text = serde_json::to_string(outcome).map_err(unreadable("runs", "outcome"))?;
    let stop_reason = serde_json::to_string(&outcome.stop_reason)
        .map_err(unreadable("sessions", "stop_reason"))?;
    let mut transaction = conn.begin().await?;
    let ended = sqlx::query!(
        "WITH locked AS (
             SELECT id FROM sessions WHERE id = $1 FOR NO KEY UPDATE
         ), run AS (
             UPDATE runs SET status = 'failed', outcome = ($5::text)::json, finished_at = now(),
                    lease_owner = NULL, lease_until = NULL
             FROM locked
             WHERE runs.id = $2 AND session_id = locked.id
               AND attempt = $3 AND lease_owner = $4 AND status = 'running'
             RETURNING runs.id
         ), calls AS (
             UPDATE tool_calls c SET state = 'interrupted', finished_at = now(),
                    result = CASE c.state WHEN 'started' THEN $7 ELSE $8 END,
                    end_reason = CASE c.state WHEN 'started' THEN $9 ELSE $10 END
             FROM run WHERE c.run_id = run.id AND c.state IN ('planned', 'started')
         )
         UPDATE sessions s SET
             -- A run that has not started is not the active one, and still counts as queued.
             queued = s.queued - CASE WHEN s.active_run_id = run.id THEN 0 ELSE 1 END,
             active_run_id = nullif(s.active_run_id, run.id),
             stop_reason = ($6::text)::json
         FROM run WHERE s.id = $1",
        session_id.as_uuid(),
        fence.run_id.as_uuid(),
        fence.attempt,
        fence.worker.as_uuid(),
        text,
        stop_reason,
        INTERRUPTED,
        RunEnd::Failure.before_running(),
        EndReason::WorkerStopped.as_str(),
        RunEnd::Failure.reason().as_str(),
    )
    .execute(&mut *transaction)
    .await?;
    if ended.rows_affected() == 0 {
        return Ok(None);
    }
    let frames = append(&mut transaction, session_id, Some(fence.run_id), events).await?;
    transaction.commit().await?;
    Ok(Some(frames))
}
