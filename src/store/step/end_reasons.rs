//! The reasons for which calls end without an outcome of their tool. They are rare, so that they have a
//! statement of their own.

use sqlx::PgConnection;

use super::step_commit::StepCommit;
use crate::domain::ids::SessionId;
use crate::store::StoreError;

/// Stores the reasons of the recorded calls, in the transaction of their step.
pub(super) async fn store(
    conn: &mut PgConnection,
    session_id: SessionId,
    step: &StepCommit<'_>,
) -> Result<(), StoreError> {
    let ended = step
        .recorded
        .iter()
        .filter_map(|record| Some((record.tool_use_id.clone(), record.end_reason?.as_str())));
    let (ids, reasons): (Vec<String>, Vec<&str>) = ended.unzip();
    sqlx::query!(
        "UPDATE tool_calls c SET end_reason = r.reason
         FROM unnest($3::text[], $4::text[]) AS r (tool_use_id, reason)
         WHERE c.session_id = $1 AND c.message_seq = $2 AND c.tool_use_id = r.tool_use_id",
        session_id.as_uuid(),
        step.recorded_message_seq,
        &ids,
        &reasons as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}
