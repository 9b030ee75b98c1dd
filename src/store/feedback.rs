//! Feedback on replies of the model.

use std::collections::HashMap;

use jiff_sqlx::Timestamp;
use sqlx::PgConnection;

use super::{StoreError, unreadable};
use crate::domain::feedback::{Feedback, Rating};
use crate::domain::ids::{SessionId, TenantId};

struct Row {
    message_id: String,
    rating: String,
    text: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl Row {
    fn read(self) -> Result<(String, Feedback), StoreError> {
        let rating = Rating::parse(&self.rating)
            .ok_or_else(|| unreadable("message_feedback", "rating")(&self.rating))?;
        let (created_at, updated_at) = (self.created_at.to_jiff(), self.updated_at.to_jiff());
        Ok((self.message_id, Feedback { rating, text: self.text, created_at, updated_at }))
    }
}

/// Locks a session, so that its feedback changes in the order of its events. Returns false if the
/// tenant does not have it.
pub async fn lock_session(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
) -> Result<bool, StoreError> {
    let found = sqlx::query!(
        "SELECT id FROM sessions WHERE id = $1 AND tenant_id = $2 FOR NO KEY UPDATE",
        session_id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(found.is_some())
}

/// Returns true if the history of a session has a reply of the model with this id.
pub async fn has_reply(
    conn: &mut PgConnection,
    session_id: SessionId,
    message_id: &str,
) -> Result<bool, StoreError> {
    Ok(sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM history WHERE session_id = $1 AND message_id = $2
                            AND role = 'assistant') AS "found!""#,
        session_id.as_uuid(),
        message_id,
    )
    .fetch_one(conn)
    .await?)
}

/// Lists the feedback on these replies, by their ids.
pub async fn list(
    conn: &mut PgConnection,
    session_id: SessionId,
    message_ids: &[String],
) -> Result<HashMap<String, Feedback>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT message_id, rating, text, created_at AS "created_at: Timestamp",
                  updated_at AS "updated_at: Timestamp"
           FROM message_feedback WHERE session_id = $1 AND message_id = ANY ($2)"#,
        session_id.as_uuid(),
        message_ids,
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Row::read).collect()
}

/// Stores the feedback on a reply, in place of an earlier one.
pub async fn put(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    message_id: &str,
    (rating, text): (Rating, Option<&str>),
) -> Result<Feedback, StoreError> {
    let row = sqlx::query_as!(
        Row,
        r#"INSERT INTO message_feedback (session_id, tenant_id, message_id, rating, text)
           VALUES ($1, $2, $3, $4, $5)
           ON CONFLICT (session_id, message_id) DO UPDATE
           SET rating = excluded.rating, text = excluded.text, updated_at = now()
           RETURNING message_id, rating, text, created_at AS "created_at: Timestamp",
                     updated_at AS "updated_at: Timestamp""#,
        session_id.as_uuid(),
        tenant.as_uuid(),
        message_id,
        rating.as_str(),
        text,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.read()?.1)
}

/// Removes the feedback on a reply. Returns false if there was none.
pub async fn remove(
    conn: &mut PgConnection,
    session_id: SessionId,
    message_id: &str,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "DELETE FROM message_feedback WHERE session_id = $1 AND message_id = $2",
        session_id.as_uuid(),
        message_id,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}
