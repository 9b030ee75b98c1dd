//! What is sent of a history otherwise than it is stored.

use sqlx::PgConnection;

use super::StoreError;
use crate::domain::ids::SessionId;
use crate::domain::sent::SentChange;

/// Stores a change, unless it has been made before.
pub(super) async fn insert(
    conn: &mut PgConnection,
    session_id: SessionId,
    change: &SentChange,
) -> Result<(), StoreError> {
    let (message_seq, block, part) = match change {
        SentChange::ThinkingDropped { up_to } => (*up_to, None, None),
        SentChange::BlockReplaced { message_seq, block, part } => {
            (*message_seq, Some(*block), *part)
        }
    };
    sqlx::query!(
        "INSERT INTO sent_changes (session_id, tenant_id, kind, message_seq, block, part)
         SELECT id, tenant_id, $2, $3, $4, $5 FROM sessions WHERE id = $1
         ON CONFLICT DO NOTHING",
        session_id.as_uuid(),
        change.kind(),
        message_seq,
        block,
        part,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Lists the changes of a session, in the order in which they were made.
pub async fn list(
    conn: &mut PgConnection,
    session_id: SessionId,
) -> Result<Vec<SentChange>, StoreError> {
    let rows = sqlx::query!(
        "SELECT message_seq, block, part FROM sent_changes WHERE session_id = $1 ORDER BY id",
        session_id.as_uuid(),
    )
    .fetch_all(conn)
    .await?;
    let changes = rows.into_iter().map(|row| match row.block {
        Some(block) => {
            SentChange::BlockReplaced { message_seq: row.message_seq, block, part: row.part }
        }
        None => SentChange::ThinkingDropped { up_to: row.message_seq },
    });
    Ok(changes.collect())
}
