//! The report of a run that still waits after an answer.

use sqlx::PgConnection;

use crate::domain::event::{EventBody, Frame, NewEvent};
use crate::domain::ids::{RunId, SessionId};
use crate::domain::stop_reason::StopReason;
use crate::store::events::append;
use crate::store::{StoreError, unreadable};

/// Reports the calls that a suspended run still awaits: appends `session.status_idle`, and sets the
/// stop reason of the session. Without such calls nothing changes and no event is returned. The
/// caller's transaction has locked the session and the run.
pub async fn report_wait(
    conn: &mut PgConnection,
    session_id: SessionId,
    run_id: RunId,
) -> Result<Vec<Frame>, StoreError> {
    let event_ids = sqlx::query_scalar!(
        "SELECT c.tool_use_id
         FROM runs r JOIN tool_calls c ON c.session_id = r.session_id AND c.run_id = r.id
         WHERE r.id = $2 AND r.session_id = $1 AND r.status = 'requires_action'
           AND c.state = 'planned' AND c.awaits IS NOT NULL AND c.decision IS NULL
         ORDER BY c.message_seq, c.position",
        session_id.as_uuid(),
        run_id.as_uuid(),
    )
    .fetch_all(&mut *conn)
    .await?;
    if event_ids.is_empty() {
        return Ok(Vec::new());
    }
    let stop_reason = StopReason::RequiresAction { event_ids };
    let stored =
        serde_json::to_string(&stop_reason).map_err(unreadable("sessions", "stop_reason"))?;
    sqlx::query!(
        "UPDATE sessions SET stop_reason = ($2::text)::json WHERE id = $1",
        session_id.as_uuid(),
        stored,
    )
    .execute(&mut *conn)
    .await?;
    let (limited, output_error) = (None, None);
    let idle = NewEvent::new(&EventBody::StatusIdle { stop_reason, limited, output_error });
    append(conn, session_id, Some(run_id), &[idle]).await
}
