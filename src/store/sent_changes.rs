//! What is sent of a history otherwise than it is stored.

use sqlx::PgConnection;

use super::StoreError;
use crate::domain::context::Compaction;
use crate::domain::ids::SessionId;
use crate::domain::sent::{SentChange, SentView};

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

/// Stores a summary, unless there is one up to the same message.
pub(super) async fn insert_compaction(
    conn: &mut PgConnection,
    session_id: SessionId,
    compaction: &Compaction,
) -> Result<(), StoreError> {
    sqlx::query!(
        "INSERT INTO sent_changes
             (session_id, tenant_id, kind, message_seq, content, tokens_before, tokens_after)
         SELECT id, tenant_id, 'compacted', $2, ($3::text)::json, $4, $5
         FROM sessions WHERE id = $1
         ON CONFLICT DO NOTHING",
        session_id.as_uuid(),
        compaction.up_to,
        compaction.content,
        compaction.tokens_before,
        compaction.tokens_after,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Reads how a session's history is sent now: with all changes and the newest summary.
pub async fn view(conn: &mut PgConnection, session_id: SessionId) -> Result<SentView, StoreError> {
    view_with(conn, session_id, None).await
}

/// Reads how a session's history was sent while the summary up to this message stood for its
/// beginning, with all changes that were made since as well.
pub(super) async fn view_with(
    conn: &mut PgConnection,
    session_id: SessionId,
    up_to: Option<i32>,
) -> Result<SentView, StoreError> {
    let rows = sqlx::query!(
        "SELECT message_seq, block, part, content::text, tokens_before, tokens_after
         FROM sent_changes c
         WHERE session_id = $1
           AND (kind <> 'compacted' OR message_seq = coalesce($2,
                   (SELECT max(message_seq) FROM sent_changes n
                    WHERE n.session_id = c.session_id AND n.kind = 'compacted')))
         ORDER BY id",
        session_id.as_uuid(),
        up_to,
    )
    .fetch_all(conn)
    .await?;
    let mut view = SentView::default();
    for row in rows {
        let message_seq = row.message_seq;
        match (row.content, row.block) {
            (Some(content), _) => {
                view.compaction = Some(Compaction {
                    up_to: message_seq,
                    content,
                    tokens_before: row.tokens_before.unwrap_or_default(),
                    tokens_after: row.tokens_after.unwrap_or_default(),
                });
            }
            (None, Some(block)) => {
                let part = row.part;
                view.changes.push(SentChange::BlockReplaced { message_seq, block, part });
            }
            (None, None) => view.changes.push(SentChange::ThinkingDropped { up_to: message_seq }),
        }
    }
    Ok(view)
}
