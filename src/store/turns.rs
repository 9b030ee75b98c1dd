//! The turns of a conversation: each run with its events, across the sessions that a fork inherits from.

use std::collections::HashMap;

use jiff_sqlx::Timestamp;
use sqlx::PgConnection;

use super::{StoreError, unreadable};
use crate::domain::event::{Frame, Stamp};
use crate::domain::ids::{RunId, SessionId};
use crate::domain::message::Content;
use crate::domain::run_status::RunStatus;

/// A user message and the run that it started.
#[derive(Debug)]
pub struct Turn {
    /// The run.
    pub run_id: RunId,
    /// The session that stores the run.
    pub stored_in: SessionId,
    /// The user message.
    pub message_id: String,
    /// The state of the run.
    pub status: RunStatus,
    /// The last event of an inherited turn that ends within its run.
    up_to: Option<i64>,
}

/// Lists the newest turns of a session, oldest first: the inherited ones, then its own in the order of
/// their acceptance. Withdrawn messages are left out.
pub async fn list_turns(
    conn: &mut PgConnection,
    session_id: SessionId,
    limit: i64,
) -> Result<Vec<Turn>, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT r.id, r.session_id, r.message_id, r.status, t.up_to
           FROM (
               SELECT h.run_id, false AS is_own, min(h.seq)::bigint AS position,
                      CASE WHEN max(h.seq) < (SELECT max(m.seq) FROM messages m
                                              WHERE m.session_id = h.stored_in
                                                AND m.run_id = h.run_id)
                           THEN max(h.last_event) END AS up_to
               FROM history h
               WHERE h.session_id = $1 AND h.stored_in <> $1
               GROUP BY h.run_id, h.stored_in
               UNION ALL
               SELECT id, true, accepted_seq, NULL FROM runs
               WHERE session_id = $1
                 AND NOT (status = 'cancelled' AND started_at IS NULL
                          AND client_message_id IS NULL)
           ) AS t
           JOIN runs r ON r.id = t.run_id
           ORDER BY t.is_own DESC, t.position DESC
           LIMIT $2"#,
        session_id.as_uuid(),
        limit,
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .rev()
        .map(|row| {
            let status = RunStatus::parse(&row.status);
            Ok(Turn {
                run_id: row.id.into(),
                stored_in: row.session_id.into(),
                message_id: row.message_id,
                status: status.ok_or_else(|| unreadable("runs", "status")(&row.status))?,
                up_to: row.up_to,
            })
        })
        .collect()
}

/// Reads the events of turns, by their runs.
pub async fn list_turn_events(
    conn: &mut PgConnection,
    turns: &[Turn],
) -> Result<HashMap<RunId, Vec<Frame>>, StoreError> {
    let runs: Vec<_> = turns.iter().map(|turn| turn.run_id.as_uuid()).collect();
    let sessions: Vec<_> = turns.iter().map(|turn| turn.stored_in.as_uuid()).collect();
    let ends: Vec<i64> = turns.iter().map(|turn| turn.up_to.unwrap_or(i64::MAX)).collect();
    let rows = sqlx::query!(
        r#"SELECT e.session_id, e.run_id AS "run_id!", e.seq, e.event_id, e.type AS kind,
                  e.body::text AS "body!", e.created_at AS "created_at: Timestamp"
           FROM unnest($1::uuid[], $2::uuid[], $3::bigint[]) AS t (run_id, session_id, up_to)
           JOIN events e ON e.session_id = t.session_id AND e.run_id = t.run_id AND e.seq <= t.up_to
           ORDER BY e.session_id, e.seq"#,
        &runs,
        &sessions,
        &ends,
    )
    .fetch_all(conn)
    .await?;
    let mut events: HashMap<RunId, Vec<Frame>> = HashMap::new();
    for row in rows {
        let run_id = row.run_id.into();
        let stamp = Stamp {
            session_id: row.session_id.into(),
            run_id: Some(run_id),
            seq: row.seq,
            created_at: row.created_at.to_jiff(),
        };
        let frame = Frame::encode(row.event_id, row.kind, &row.body, &stamp);
        events.entry(run_id).or_default().push(frame);
    }
    Ok(events)
}

/// Reads the complete contents of user messages of a history, by the ids of the messages. Events have
/// only the names of images and documents.
pub async fn list_inputs(
    conn: &mut PgConnection,
    session_id: SessionId,
    message_ids: &[String],
) -> Result<HashMap<String, Content>, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT message_id AS "message_id!", content::text AS "content!" FROM history
           WHERE session_id = $1 AND role = 'user' AND message_id = ANY ($2)
           ORDER BY seq"#,
        session_id.as_uuid(),
        message_ids,
    )
    .fetch_all(conn)
    .await?;
    let contents = rows.into_iter().map(|row| {
        let content = Content::parse(row.content).map_err(unreadable("messages", "content"))?;
        Ok((row.message_id, content))
    });
    contents.collect()
}
