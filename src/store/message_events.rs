//! The events that report the messages of a history, and those whose content is not in the history
//! yet.

use std::collections::HashMap;

use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use super::StoreError;
use crate::domain::event::{Frame, Stamp};
use crate::domain::ids::SessionId;
use crate::domain::message::Role;

/// An event that reports a message or a part of it.
#[derive(Debug, Clone)]
pub struct MessageEvent {
    /// The event's id.
    pub id: String,
    /// The type.
    pub kind: String,
    /// The sequence number; none if the event belongs to the session that a fork inherited the message
    /// from.
    pub seq: Option<i64>,
}

/// A message of a history, as far as its events depend on it.
struct Row {
    seq: i32,
    stored_in: Uuid,
    role: String,
    message_id: String,
    last_event: Option<i64>,
    /// The event of the user message that started the run.
    accepted_seq: Option<i64>,
    /// True for the user message that started the run.
    is_input: bool,
}

/// Finds the events of the messages from `first` to `last`, by the numbers of the messages. A message
/// that an earlier version stored has none, except the one that started its run.
pub async fn list_message_events(
    conn: &mut PgConnection,
    session_id: SessionId,
    (first, last): (i32, i32),
) -> Result<HashMap<i32, Vec<MessageEvent>>, StoreError> {
    // With the message before, whose last event bounds the search.
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT h.seq AS "seq!", h.stored_in AS "stored_in!", h.role AS "role!",
                  h.message_id AS "message_id!", h.last_event,
                  r.accepted_seq AS "accepted_seq?",
                  coalesce(h.role = 'user' AND r.message_id = h.message_id, false) AS "is_input!"
           FROM history h LEFT JOIN runs r ON r.id = h.run_id AND r.session_id = h.stored_in
           WHERE h.session_id = $1 AND h.seq >= $2 AND h.seq <= $3
           ORDER BY h.seq"#,
        session_id.as_uuid(),
        first - 1,
        last,
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut found: HashMap<i32, Vec<MessageEvent>> = HashMap::new();
    for segment in rows.chunk_by(|row, next| row.stored_in == next.stored_in) {
        let lower = segment.first().map_or(0, |row| lower_bound(row, first));
        let Some(upper) = segment.iter().filter_map(|row| row.last_event).max() else { continue };
        let is_own = segment.first().is_some_and(|row| row.stored_in == session_id.as_uuid());
        let mut reported = list_reports(conn, segment, (lower, upper)).await?;
        let before = segment.first().filter(|row| row.seq < first);
        let mut is_known = before.is_none_or(|row| row.last_event.is_some());
        for row in segment.iter().filter(|row| row.seq >= first) {
            let of_row: Vec<Report> = reported.extract_if(.., |event| event.reports(row)).collect();
            let events = of_row.into_iter().map(|event| MessageEvent {
                id: event.event_id,
                kind: event.kind,
                seq: is_own.then_some(event.seq),
            });
            if is_known {
                found.entry(row.seq).or_default().extend(events);
            }
            // Without the last event of a message, those of the next one cannot be distinguished.
            is_known = row.last_event.is_some();
        }
    }
    add_inputs(&mut found, &rows, session_id, first);
    Ok(found)
}

/// The number that all events of a segment exceed. Its first message is the one before the page, or the
/// first one of its session.
fn lower_bound(row: &Row, first: i32) -> i64 {
    let before = (row.seq < first).then(|| row.last_event.or(row.accepted_seq)).flatten();
    before.unwrap_or(0)
}

/// The message that started a run has one event, which may be much older than the message.
fn add_inputs(
    found: &mut HashMap<i32, Vec<MessageEvent>>,
    rows: &[Row],
    session_id: SessionId,
    first: i32,
) {
    for row in rows.iter().filter(|row| row.is_input && row.seq >= first) {
        let is_own = row.stored_in == session_id.as_uuid();
        let seq = row.accepted_seq.filter(|_| is_own);
        let (id, kind) = (row.message_id.clone(), "user.message".to_owned());
        found.entry(row.seq).or_default().insert(0, MessageEvent { id, kind, seq });
    }
}

/// An event that reports a part of a message.
struct Report {
    seq: i64,
    event_id: String,
    kind: String,
}

impl Report {
    /// Returns true if the event reports a part of this message. The events come in their order, and
    /// those of earlier messages are taken already.
    fn reports(&self, row: &Row) -> bool {
        let is_of_reply = self.kind.starts_with("agent.") && self.kind != "agent.tool_result";
        let is_reply = row.role == Role::Assistant.as_str();
        is_of_reply == is_reply && row.last_event.is_some_and(|last| self.seq <= last)
    }
}

async fn list_reports(
    conn: &mut PgConnection,
    segment: &[Row],
    (after, to): (i64, i64),
) -> Result<Vec<Report>, StoreError> {
    let stored_in = segment.first().map(|row| row.stored_in);
    Ok(sqlx::query_as!(
        Report,
        "SELECT seq, event_id, type AS kind FROM events
         WHERE session_id = $1 AND seq > $2 AND seq <= $3
           AND type IN ('agent.message', 'agent.thinking', 'agent.tool_use',
                        'agent.custom_tool_use', 'agent.tool_result', 'user.custom_tool_result')
         ORDER BY seq",
        stored_in,
        after,
        to,
    )
    .fetch_all(conn)
    .await?)
}

/// Reads the events whose content is not in the history yet: messages of queued runs, and results of
/// calls of the last reply.
pub async fn list_unplaced(
    conn: &mut PgConnection,
    session_id: SessionId,
) -> Result<Vec<Frame>, StoreError> {
    let rows = sqlx::query!(
        r#"WITH last_message AS (
               SELECT m.last_event, m.run_id, r.accepted_seq
               FROM sessions s
               JOIN messages m ON m.session_id = s.id AND m.seq = s.last_message_seq
               JOIN runs r ON r.id = m.run_id
               WHERE s.id = $1 AND m.role = 'assistant' AND s.active_run_id = m.run_id
           )
           SELECT e.seq AS "seq!", e.run_id, e.event_id AS "event_id!", e.type AS "kind!",
                  e.body::text AS "body!", e.created_at AS "created_at!: Timestamp"
           FROM events e
           JOIN runs r ON r.session_id = $1 AND r.status = 'queued' AND r.accepted_seq = e.seq
           WHERE e.session_id = $1
           UNION ALL
           SELECT e.seq, e.run_id, e.event_id, e.type, e.body::text, e.created_at
           FROM last_message m
           JOIN events e ON e.session_id = $1 AND e.seq > coalesce(m.last_event, m.accepted_seq)
                        AND e.run_id = m.run_id
           WHERE e.type IN ('agent.tool_result', 'user.custom_tool_result')
           ORDER BY 1"#,
        session_id.as_uuid(),
    )
    .fetch_all(conn)
    .await?;
    let frame = rows.into_iter().map(|row| {
        let stamp = Stamp {
            session_id,
            run_id: row.run_id.map(Into::into),
            seq: row.seq,
            created_at: row.created_at.to_jiff(),
        };
        Frame::encode(row.event_id, row.kind, &row.body, &stamp)
    });
    Ok(frame.collect())
}
