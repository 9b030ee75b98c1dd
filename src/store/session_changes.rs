//! Changes of existing sessions by clients.

use serde_json::value::RawValue;
use sqlx::PgConnection;

use super::{StoreError, unreadable};
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::model_settings::ModelSettings;
use crate::domain::permission::PermissionMode;
use crate::domain::run_options::RunOptions;

const TABLE: &str = "sessions";

/// The members of a session that clients can change.
#[derive(Debug, Clone)]
pub struct Changeable {
    /// A title for people.
    pub title: Option<String>,
    /// Metadata from the client.
    pub metadata: Box<RawValue>,
    /// The permission mode, if it was changed.
    pub permission_mode: Option<PermissionMode>,
    /// True if the session is archived.
    pub is_archived: bool,
}

/// Reads the members of a session that clients can change, and the number of its newest event. The
/// session stays locked until the end of the caller's transaction.
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

/// Sets the model of a locked session, and the settings that follow from it.
pub async fn set_model(
    conn: &mut PgConnection,
    id: SessionId,
    to: &ModelSettings,
) -> Result<(), StoreError> {
    let settings = serde_json::to_string(to).map_err(unreadable(TABLE, "model_settings"))?;
    sqlx::query!(
        "UPDATE sessions SET model = $2, model_settings = ($3::text)::json WHERE id = $1",
        id.as_uuid(),
        to.model,
        settings,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Lists the options of the queued runs of a session, in their order.
pub async fn queued_options(
    conn: &mut PgConnection,
    id: SessionId,
) -> Result<Vec<RunOptions>, StoreError> {
    let rows = sqlx::query_scalar!(
        r#"SELECT options::text AS "options!" FROM runs
           WHERE session_id = $1 AND status = 'queued' ORDER BY id"#,
        id.as_uuid(),
    )
    .fetch_all(conn)
    .await?;
    let read = |text: &String| serde_json::from_str(text).map_err(unreadable("runs", "options"));
    rows.iter().map(read).collect()
}

/// Changes a locked session.
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
