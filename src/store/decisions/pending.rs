//! The calls that await an answer.

use jiff_sqlx::Timestamp;
use sqlx::PgConnection;

use super::{input_of, parse};
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::pending_call::PendingCall;
use crate::domain::permission::Awaits;
use crate::store::{StoreError, unreadable};

/// Lists the calls of a session that await an answer, in the order of the calls.
pub async fn list_pending(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
) -> Result<Vec<PendingCall>, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT c.message_seq, c.tool_use_id, c.name, c.awaits AS "awaits!",
                  c.wait_reason, c.diff,
                  c.answer_by AS "answer_by!: Timestamp"
           FROM runs r JOIN tool_calls c ON c.session_id = r.session_id AND c.run_id = r.id
           WHERE r.session_id = $1 AND r.tenant_id = $2 AND r.status = 'requires_action'
             AND c.state = 'planned' AND c.awaits IS NOT NULL AND c.decision IS NULL
           ORDER BY c.message_seq, c.position"#,
        session_id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_all(&mut *conn)
    .await?;
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    // A run waits only for calls of its last message.
    let content = sqlx::query_scalar!(
        r#"SELECT content::text AS "content!" FROM messages WHERE session_id = $1 AND seq = $2"#,
        session_id.as_uuid(),
        first.message_seq,
    )
    .fetch_one(conn)
    .await?;
    let content = parse(content)?;
    let mut pending = Vec::new();
    for row in rows {
        let awaits = Awaits::parse(&row.awaits)
            .ok_or_else(|| unreadable("tool_calls", "awaits")(&row.awaits))?;
        let Some(input) = input_of(&content, &row.tool_use_id)? else { continue };
        pending.push(PendingCall {
            tool_use_id: row.tool_use_id,
            name: row.name,
            input,
            awaits,
            answer_by: row.answer_by.to_jiff(),
            reason: row.wait_reason,
            diff: row.diff,
        });
    }
    Ok(pending)
}
