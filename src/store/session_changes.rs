//! What clients change of a session that is there.

use serde_json::value::RawValue;
use sqlx::PgConnection;

use super::{StoreError, unreadable};
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::permission::PermissionMode;

const TABLE: &str = "sessions";

/// What of a session can be changed.
#[derive(Debug, Clone)]
pub struct Changeable {
    /// A name for people.
    pub title: Option<String>,
    /// What the client attached.
    pub metadata: Box<RawValue>,
    /// The permission mode, if something has changed it.
    pub permission_mode: Option<PermissionMode>,
    /// Whether it is put away.
    pub is_archived: bool,
}

/// Reads what can be changed of a session, and the number of its newest event. The session stays
/// locked for the rest of the caller's transaction.
pub async fn lock(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: SessionId,
) -> Result<Option<(Changeable, i64)>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT title, metadata::text AS "metadata!", permission_mode, last_seq,
                  archived_at IS NOT NULL AS "is_archived!"
           FROM sessions WHERE id = $1 AND tenant_id = $2 FOR UPDATE"#,
        id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let mode = row.permission_mode.map(|word| PermissionMode::parse(&word).ok_or(word));
    let changeable = Changeable {
        title: row.title,
        metadata: RawValue::from_string(row.metadata).map_err(unreadable(TABLE, "metadata"))?,
        permission_mode: mode.transpose().map_err(unreadable(TABLE, "permission_mode"))?,
        is_archived: row.is_archived,
    };
    Ok(Some((changeable, row.last_seq)))
}

/// Changes a session that is locked.
pub async fn change(
    conn: &mut PgConnection,
    id: SessionId,
    to: &Changeable,
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE sessions SET title = $2, metadata = ($3::text)::json, permission_mode = $4,
                archived_at = CASE WHEN $5 THEN coalesce(archived_at, now()) END
         WHERE id = $1",
        id.as_uuid(),
        to.title,
        to.metadata.get(),
        to.permission_mode.map(PermissionMode::as_str),
        to.is_archived,
    )
    .execute(conn)
    .await?;
    Ok(())
}
