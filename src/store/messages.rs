//! The history. The history of a fork begins with messages of other sessions; the view `history`
//! puts these before its own.

use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{StoreError, files, unreadable};
use crate::domain::ids::{RunId, SessionId};
use crate::domain::message::{Content, Message, Role};
use crate::domain::stop_reason::ModelStop;
use crate::domain::usage::Usage;

const TABLE: &str = "messages";

/// A message with its position in the history.
#[derive(Debug)]
pub struct StoredMessage {
    /// The position, from 1.
    pub seq: i32,
    /// The run that wrote it.
    pub run_id: RunId,
    /// The model's, the client's or our ID.
    pub message_id: String,
    /// The model that wrote it.
    pub model: Option<String>,
    /// Role, blocks, stop reason, usage.
    pub message: Message,
    /// The time at which it was stored.
    pub created_at: jiff::Timestamp,
}

struct Row {
    seq: i32,
    run_id: Uuid,
    message_id: String,
    role: String,
    content: String,
    model: Option<String>,
    stop_reason: Option<String>,
    stop_sequence: Option<String>,
    usage: Option<String>,
    created_at: Timestamp,
}

impl TryFrom<Row> for StoredMessage {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let usage: Option<Usage> = row
            .usage
            .map(|text| serde_json::from_str(&text).map_err(unreadable(TABLE, "usage")))
            .transpose()?;
        Ok(Self {
            seq: row.seq,
            run_id: row.run_id.into(),
            message_id: row.message_id,
            model: row.model,
            message: Message {
                role: if row.role == Role::User.as_str() { Role::User } else { Role::Assistant },
                content: Content::parse(row.content).map_err(unreadable(TABLE, "content"))?,
                stop_reason: row
                    .stop_reason
                    .map(|stop| ModelStop::from(stop.as_str()).with_sequence(row.stop_sequence)),
                usage: usage.unwrap_or_default(),
            },
            created_at: row.created_at.to_jiff(),
        })
    }
}

/// A part of a history.
#[derive(Debug, Clone, Copy)]
pub struct MessageRange {
    /// The session.
    pub session_id: SessionId,
    /// Only positions greater than this.
    pub after: i32,
    /// Only positions less than this.
    pub before: Option<i32>,
    /// Maximum number of messages, counted from `after`, or backwards from `before` if that is set.
    pub limit: i64,
}

/// Reads a part of a history, in order.
pub async fn list(
    conn: &mut PgConnection,
    range: MessageRange,
) -> Result<Vec<StoredMessage>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT seq AS "seq!", run_id AS "run_id!", message_id AS "message_id!", role AS "role!",
                  content::text AS "content!", model, stop_reason, stop_sequence, usage::text,
                  created_at AS "created_at!: Timestamp"
           FROM history
           -- Numbers have no gaps. With both ends known, no other rows of the history are read.
           WHERE session_id = $1
             AND seq > greatest($2::int, CASE WHEN $3::int IS NOT NULL THEN
                 least($3::int, (SELECT last_message_seq + 1 FROM sessions WHERE id = $1))
                 - 1 - $4::bigint END)
             AND seq < coalesce($3::int, 1 + $4::bigint + $2::int)
           ORDER BY seq"#,
        range.session_id.as_uuid(),
        range.after,
        range.before,
        range.limit,
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(StoredMessage::try_from).collect()
}

/// Reads the messages of a run, in order.
pub async fn list_of_run(
    conn: &mut PgConnection,
    run_id: RunId,
) -> Result<Vec<StoredMessage>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT seq, run_id, message_id, role, content::text AS "content!", model, stop_reason,
                  stop_sequence, usage::text, created_at AS "created_at: Timestamp"
           FROM messages
           -- A fork may have ended a turn of the run in its own history.
           WHERE run_id = $1 AND session_id = (SELECT r.session_id FROM runs r WHERE r.id = $1)
           ORDER BY seq"#,
        run_id.as_uuid(),
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(StoredMessage::try_from).collect()
}

/// A message as text, to be copied into a request.
#[derive(Debug)]
pub struct Line {
    /// The position, from 1.
    pub seq: i32,
    /// The role.
    pub role: String,
    /// The blocks, as stored, with the contents of files in place of references to them.
    pub content: String,
}

/// Reads the texts of all messages after a position, with the files that they refer to.
pub async fn list_lines(
    conn: &mut PgConnection,
    session_id: SessionId,
    after: i32,
) -> Result<Vec<Line>, StoreError> {
    let mut lines = sqlx::query_as!(
        Line,
        r#"SELECT seq AS "seq!", role AS "role!", content::text AS "content!"
           FROM history WHERE session_id = $1 AND seq > $2 ORDER BY seq"#,
        session_id.as_uuid(),
        after,
    )
    .fetch_all(&mut *conn)
    .await?;
    files::resolve(conn, lines.iter_mut().map(|line| &mut line.content).collect()).await?;
    Ok(lines)
}
