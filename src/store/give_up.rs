//! The last resort: a run whose rows nobody can read, or live to have read, is ended by what its
//! own row says.
//!
//! Its open calls get their answers in the ledger only; where they are missing in the history,
//! requests are mended before they are sent.

use sqlx::{Connection as _, PgConnection};

use super::events::append;
use super::{StoreError, unreadable};
use crate::domain::claim::Fence;
use crate::domain::event::{Frame, NewEvent};
use crate::domain::ids::SessionId;
use crate::domain::run::Outcome;
use crate::domain::tool::INTERRUPTED;

/// Ends a run as failed, with these events; none if the worker has lost its claim.
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
             UPDATE tool_calls c SET state = 'interrupted', result = $7, finished_at = now()
             FROM run WHERE c.run_id = run.id AND c.state IN ('planned', 'started')
         )
         UPDATE sessions s SET
             -- Only a run that has begun is the active one; another still counts as waiting.
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
