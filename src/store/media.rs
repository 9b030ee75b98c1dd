//! User content of a conversation, for limits that apply to all of it together.

use sqlx::PgConnection;

use super::StoreError;
use crate::domain::ids::{SessionId, TenantId};

/// Reads the user content of a session, as stored: arrays of blocks, in no order. Queued messages
/// and tool results that are not in the history yet are included; messages that a summary replaces
/// are not.
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
           -- A claimed run enters the history with its first step.
           SELECT r.input::text FROM runs r
           WHERE r.session_id = $1 AND r.tenant_id = $2 AND r.status IN ('queued', 'running')
             AND NOT EXISTS (SELECT FROM messages m WHERE m.session_id = $1 AND m.run_id = r.id)
           UNION ALL
           -- A result enters the history when all calls of its round have ended.
           SELECT c.content::text FROM tool_calls c
           JOIN sessions s ON s.id = c.session_id AND s.last_message_seq = c.message_seq
           WHERE s.id = $1 AND s.tenant_id = $2 AND c.content IS NOT NULL"#,
        session_id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_all(conn)
    .await?)
}
