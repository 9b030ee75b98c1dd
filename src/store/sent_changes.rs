//! Differences between the stored history and the history as it is sent to the model: changes of
//! blocks, and summaries.

use sqlx::PgConnection;

use super::{StoreError, unreadable};
use crate::domain::container::Container;
use crate::domain::context::Compaction;
use crate::domain::ids::SessionId;
use crate::domain::sent_history::{SentHistoryChange, SentView};

/// Stores a change, unless it exists already.
pub(super) async fn insert(
    conn: &mut PgConnection,
    session_id: SessionId,
    change: &SentHistoryChange,
) -> Result<(), StoreError> {
    let (message_seq, block, part) = match change {
        SentHistoryChange::ThinkingDropped { up_to } => (*up_to, None, None),
        SentHistoryChange::BlockReplaced { message_seq, block, part } => {
            (*message_seq, Some(*block), *part)
        }
        SentHistoryChange::SummaryDropped { up_to } => {
            return refuse(conn, session_id, *up_to).await;
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

/// A summary is not withdrawn; it stays for the requests that contained it.
async fn refuse(
    conn: &mut PgConnection,
    session_id: SessionId,
    up_to: i32,
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE compactions SET refused_at = coalesce(refused_at, now())
         WHERE session_id = $1 AND up_to = $2",
        session_id.as_uuid(),
        up_to,
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
        "INSERT INTO compactions
             (session_id, tenant_id, up_to, content, tokens_before, tokens_after)
         SELECT id, tenant_id, $2, ($3::text)::json, $4, $5 FROM sessions WHERE id = $1
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

/// The state of a session that its requests depend on, besides its messages and settings.
#[derive(Debug, Default)]
pub struct SentState {
    /// The differences between the stored history and the requests.
    pub view: SentView,
    /// The container in which the model's server runs code.
    pub container: Option<Container>,
    /// The model that was asked for the newest message of the assistant; none if no request for it is
    /// known.
    pub model: Option<String>,
}

/// Reads how a session's history is sent now: all changes, in the order of their creation, the
/// newest summary, and the container.
pub async fn sent_state(
    conn: &mut PgConnection,
    session_id: SessionId,
) -> Result<SentState, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT id AS "id!", message_seq AS "message_seq!", block, part, NULL AS content,
                  0::bigint AS "tokens_before!", 0::bigint AS "tokens_after!", NULL AS container,
                  NULL AS model
           FROM sent_changes WHERE session_id = $1
           UNION ALL
           -- A refused summary leaves none: the earlier ones are of the same kind.
           (SELECT 0, up_to, NULL, NULL, content::text, tokens_before, tokens_after, NULL,
                    NULL
            FROM (SELECT * FROM compactions WHERE session_id = $1
                  ORDER BY up_to DESC LIMIT 1) newest
            WHERE refused_at IS NULL)
           UNION ALL
           SELECT 0, 0, NULL, NULL, NULL, 0, 0, code_container::text,
                  NULL
           FROM sessions WHERE id = $1 AND code_container IS NOT NULL
           UNION ALL
           SELECT 0, 0, NULL, NULL, NULL, 0, 0, NULL, last.model
           FROM (SELECT stored_in, run_id FROM history
                 WHERE session_id = $1 AND role = 'assistant' ORDER BY seq DESC LIMIT 1) AS newest,
                LATERAL (
                    SELECT q.model FROM requests q
                    WHERE q.session_id = newest.stored_in AND q.run_id = newest.run_id
                      AND q.stop_reason IS NOT NULL
                      AND (q.form->>'question') IS NULL AND (q.form->>'title') IS NULL
                    ORDER BY q.n DESC LIMIT 1) AS last
           ORDER BY 1"#,
        session_id.as_uuid(),
    )
    .fetch_all(conn)
    .await?;
    let SentState { mut view, mut container, mut model } = SentState::default();
    for row in rows {
        if row.model.is_some() {
            model = row.model;
            continue;
        }
        if let Some(json) = row.container {
            let read = serde_json::from_str(&json);
            container = read.map_err(unreadable("sessions", "code_container"))?;
            continue;
        }
        let (tokens_before, tokens_after) = (row.tokens_before, row.tokens_after);
        match (row.content, row.block) {
            (Some(content), _) => {
                let up_to = row.message_seq;
                view.compaction = Some(Compaction { up_to, content, tokens_before, tokens_after });
            }
            (None, Some(block)) => {
                let (message_seq, part) = (row.message_seq, row.part);
                view.changes.push(SentHistoryChange::BlockReplaced { message_seq, block, part });
            }
            (None, None) => {
                view.changes.push(SentHistoryChange::ThinkingDropped { up_to: row.message_seq });
            }
        }
    }
    Ok(SentState { view, container, model })
}

/// Reads the summary of all messages up to this one.
pub(super) async fn compaction(
    conn: &mut PgConnection,
    session_id: SessionId,
    up_to: i32,
) -> Result<Option<Compaction>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT content::text AS "content!", tokens_before, tokens_after
           FROM compactions WHERE session_id = $1 AND up_to = $2"#,
        session_id.as_uuid(),
        up_to,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| {
        let (tokens_before, tokens_after) = (row.tokens_before, row.tokens_after);
        Compaction { up_to, content: row.content, tokens_before, tokens_after }
    }))
}
