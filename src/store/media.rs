//! What clients have put into a conversation, for rules that hold for all of it together.

use sqlx::PgConnection;

use super::StoreError;
use crate::domain::ids::{SessionId, TenantId};

/// Reads all that clients have said in a session, but for what a summary stands for, and what waits
/// to be said, as stored: arrays of blocks, in no order. Results of calls that wait for others are among it.
pub async fn list_contents(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
) -> Result<Vec<String>, StoreError> {
    Ok(sqlx::query_scalar!(
        r#"SELECT content::text AS "content!" FROM history
           WHERE session_id = $1 AND tenant_id = $2 AND role = 'user'
             AND seq > coalesce((SELECT CASE WHEN refused_at IS NULL THEN up_to END
                                 FROM compactions WHERE session_id = $1
                                 ORDER BY up_to DESC LIMIT 1), 0)
           UNION ALL
           -- A run that was claimed enters the history a moment later.
           SELECT r.input::text FROM runs r
           WHERE r.session_id = $1 AND r.tenant_id = $2 AND r.status IN ('queued', 'running')
             AND NOT EXISTS (SELECT FROM messages m WHERE m.session_id = $1 AND m.run_id = r.id)
           UNION ALL
           -- Answered, and not in the history before all others of their round are.
           SELECT c.content::text FROM tool_calls c
           JOIN sessions s ON s.id = c.session_id AND s.last_message_seq = c.message_seq
           WHERE s.id = $1 AND s.tenant_id = $2 AND c.content IS NOT NULL"#,
        session_id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_all(conn)
    .await?)
}
