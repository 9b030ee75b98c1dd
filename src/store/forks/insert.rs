//! Insertion of a fork, and of the references to its inherited messages.

use serde_json::value::RawValue;
use sqlx::PgConnection;
use sqlx::error::ErrorKind;

use crate::domain::ids::SessionId;
use crate::store::StoreError;

/// A fork to be inserted.
#[derive(Debug, Clone, Copy)]
pub struct NewFork<'a> {
    /// The ID.
    pub id: SessionId,
    /// The source session.
    pub source: SessionId,
    /// The last message that it inherits; 0 for none.
    pub at: i32,
    /// The message that answers the open calls of the last inherited message: its ID and blocks.
    pub closing: Option<(&'a str, &'a str)>,
    /// A title for people; `None` for the source's.
    pub title: Option<&'a str>,
    /// Metadata from the client; `None` for the source's.
    pub metadata: Option<&'a RawValue>,
    /// True if it works in the source's folder.
    pub has_files: bool,
    /// The client's `Idempotency-Key`.
    pub key: Option<&'a str>,
    /// A hash of the request, which distinguishes a repeated request from a different one with the
    /// same key.
    pub fingerprint: &'a [u8],
}

/// Inserts a fork of a locked session. Returns false if the key was used before; then the caller's
/// transaction has failed.
pub async fn insert(conn: &mut PgConnection, new: &NewFork<'_>) -> Result<bool, StoreError> {
    match insert_session(conn, new).await {
        Err(sqlx::Error::Database(error)) if error.kind() == ErrorKind::UniqueViolation => {
            return Ok(false);
        }
        inserted => inserted?,
    }
    inherit(conn, new).await?;
    inherit_view(conn, new).await?;
    if new.has_files {
        inherit_read_state(conn, new).await?;
    }
    if let Some((message_id, content)) = new.closing {
        close(conn, new, message_id, content).await?;
    }
    Ok(true)
}

/// The settings are copied as text: the model's prompt cache begins with them.
async fn insert_session(conn: &mut PgConnection, new: &NewFork<'_>) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO sessions (id, tenant_id, title, metadata, model, settings, workspace, todos,
                               model_settings, permission_mode, remembered, last_message_seq, forked_from,
                               forked_at, fork_key, fork_fingerprint)
         SELECT $2, tenant_id, coalesce($3, title), coalesce(($4::text)::json, metadata), model,
                settings, workspace, todos, model_settings, permission_mode, remembered, $5, id, $6, $7, $8
         FROM sessions WHERE id = $1",
        new.source.as_uuid(),
        new.id.as_uuid(),
        new.title,
        new.metadata.map(RawValue::get),
        new.at + i32::from(new.closing.is_some()),
        new.at,
        new.key,
        new.fingerprint,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Inserts the references to the inherited messages: those that the source inherits, and its own.
async fn inherit(conn: &mut PgConnection, new: &NewFork<'_>) -> Result<(), StoreError> {
    sqlx::query!(
        "INSERT INTO inherited (session_id, tenant_id, source_id, after_seq, up_to)
         SELECT $2::uuid, tenant_id, source_id, after_seq, least(up_to, $3)
         FROM inherited WHERE session_id = $1 AND after_seq < $3
         UNION ALL
         SELECT $2, s.tenant_id, s.id, own.after_seq, $3
         FROM sessions s, LATERAL (SELECT coalesce(max(up_to), 0) AS after_seq
                                   FROM inherited WHERE session_id = s.id) own
         WHERE s.id = $1 AND own.after_seq < $3",
        new.source.as_uuid(),
        new.id.as_uuid(),
        new.at,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The messages are sent as the source sends them now: the model has cached and accepted them in
/// that form.
async fn inherit_view(conn: &mut PgConnection, new: &NewFork<'_>) -> Result<(), StoreError> {
    sqlx::query!(
        "INSERT INTO sent_changes (session_id, tenant_id, kind, message_seq, block, part)
         SELECT $2, tenant_id, kind, least(message_seq, $3), block, part
         FROM sent_changes
         WHERE session_id = $1 AND $3 > 0 AND (kind = 'thinking_dropped' OR message_seq <= $3)
         ORDER BY id
         ON CONFLICT DO NOTHING",
        new.source.as_uuid(),
        new.id.as_uuid(),
        new.at,
    )
    .execute(&mut *conn)
    .await?;
    // If the newest summary was refused, the earlier ones are not sent either.
    sqlx::query!(
        "INSERT INTO compactions (session_id, tenant_id, up_to, content, tokens_before,
                                  tokens_after, created_at, refused_at)
         SELECT $2, tenant_id, up_to, content, tokens_before, tokens_after, created_at,
                coalesce(refused_at, (SELECT refused_at FROM compactions WHERE session_id = $1
                                      ORDER BY up_to DESC LIMIT 1))
         FROM compactions WHERE session_id = $1 AND up_to <= $3
         ORDER BY up_to DESC LIMIT 1",
        new.source.as_uuid(),
        new.id.as_uuid(),
        new.at,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The fork's model has not read what was read after the fork point. A file that was read before
/// and again after it counts as unread: it is read once more.
async fn inherit_read_state(conn: &mut PgConnection, new: &NewFork<'_>) -> Result<(), StoreError> {
    sqlx::query!(
        "INSERT INTO seen_files (session_id, tenant_id, path, hash, seen_at)
         SELECT $2, f.tenant_id, f.path, f.hash, f.seen_at
         FROM history m JOIN seen_files f ON f.session_id = $1 AND f.seen_at <= m.created_at
         WHERE m.session_id = $1 AND m.seq = $3",
        new.source.as_uuid(),
        new.id.as_uuid(),
        new.at,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The fork's first own message ends the turn of a run of the source.
async fn close(
    conn: &mut PgConnection,
    new: &NewFork<'_>,
    message_id: &str,
    content: &str,
) -> Result<(), StoreError> {
    sqlx::query!(
        "INSERT INTO messages (session_id, seq, tenant_id, run_id, attempt, role, message_id,
                               content, last_event)
         SELECT $2, seq + 1, tenant_id, run_id, attempt, 'user', $4, ($5::text)::json,
                -- `session.forked`, and an event for each result.
                1 + json_array_length(($5::text)::json)
         FROM history WHERE session_id = $1 AND seq = $3",
        new.source.as_uuid(),
        new.id.as_uuid(),
        new.at,
        message_id,
        content,
    )
    .execute(conn)
    .await?;
    Ok(())
}
