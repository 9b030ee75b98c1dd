//! User messages by the ids that adapters make from transcripts.

use sqlx::PgConnection;

use super::StoreError;
use crate::domain::ids::{RunId, SessionId, TenantId};

/// The maximum number of sessions that are considered.
const MAX_TURNS: i64 = 16;

/// The run of a message.
#[derive(Debug, Clone)]
pub struct MessageTurn {
    /// The session.
    pub session_id: SessionId,
    /// The run.
    pub run_id: RunId,
    /// The last text of its answer; none if it has not settled.
    pub answer: Option<String>,
}

/// Lists the runs of messages with this id in all sessions of a tenant, newest first.
pub async fn find_turns(
    conn: &mut PgConnection,
    tenant: TenantId,
    message_id: &str,
) -> Result<Vec<MessageTurn>, StoreError> {
    // The condition on the prefix is that of the partial index.
    let rows = sqlx::query!(
        "SELECT session_id, id, outcome->>'output_text' AS answer FROM runs
         WHERE tenant_id = $1 AND client_message_id = $2 AND left(client_message_id, 4) = 'oai_'
         ORDER BY id DESC LIMIT $3",
        tenant.as_uuid(),
        message_id,
        MAX_TURNS,
    )
    .fetch_all(conn)
    .await?;
    let turn = rows.into_iter().map(|row| MessageTurn {
        session_id: row.session_id.into(),
        run_id: row.id.into(),
        answer: row.answer,
    });
    Ok(turn.collect())
}

/// The place of a message in the history of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessagePlace {
    /// True if the session has the message.
    pub is_known: bool,
    /// The next message of the user that started a run.
    pub next: Option<String>,
}

/// Finds the place of a message; without one, the place before the first message.
pub async fn find_place(
    conn: &mut PgConnection,
    session_id: SessionId,
    message_id: Option<&str>,
) -> Result<MessagePlace, StoreError> {
    let row = sqlx::query!(
        r#"WITH place AS (
               SELECT max(seq) AS seq FROM history
               WHERE session_id = $1 AND role = 'user' AND message_id = $2)
           SELECT place.seq IS NOT NULL AS "is_known!",
                  (SELECT h.message_id FROM history h
                   JOIN runs r ON r.id = h.run_id AND r.message_id = h.message_id
                   WHERE h.session_id = $1 AND h.role = 'user'
                     AND h.seq > coalesce(place.seq, 0)
                   ORDER BY h.seq LIMIT 1) AS next
           FROM place"#,
        session_id.as_uuid(),
        message_id,
    )
    .fetch_one(conn)
    .await?;
    Ok(MessagePlace { is_known: row.is_known, next: row.next })
}
