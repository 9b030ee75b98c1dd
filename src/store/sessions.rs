//! Sessions.

use jiff_sqlx::Timestamp;
use serde_json::value::RawValue;
use sqlx::PgConnection;
use uuid::Uuid;

use super::model_settings::settings_of;
use super::sub_agents::parent;
use super::{StoreError, unreadable};
use crate::domain::fork::ForkedFrom;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::page::Slice;
use crate::domain::permission::PermissionMode;
use crate::domain::session::{Session, Settings};
use crate::domain::state_change::Todo;

const TABLE: &str = "sessions";

/// A session to be inserted.
#[derive(Debug)]
pub struct NewSession<'a> {
    /// The ID.
    pub id: SessionId,
    /// The owner.
    pub tenant_id: TenantId,
    /// The id of the session in the client's own system.
    pub external_id: Option<&'a str>,
    /// A title for people.
    pub title: Option<&'a str>,
    /// Metadata from the client.
    pub metadata: &'a RawValue,
    /// The settings that are pinned at creation.
    pub settings: &'a Settings,
    /// The workspace folder; `None` for a folder of the session's own.
    pub workspace: Option<&'a str>,
    /// The client's `Idempotency-Key` and a hash of the request.
    pub idempotency_key: Option<(&'a str, &'a [u8])>,
}

row_with_usage! {
    struct Row {
        id: Uuid,
        external_id: Option<String>,
        title: Option<String>,
        metadata: String,
        settings: String,
        model_settings: Option<String>,
        workspace: Option<String>,
        forked_from: Option<Uuid>,
        forked_at: Option<i32>,
        parent_session_id: Option<Uuid>,
        parent_run_id: Option<Uuid>,
        parent_tool_use_id: Option<String>,
        permission_mode: Option<String>,
        remembered: String,
        active_run_id: Option<Uuid>,
        is_waiting: bool,
        queued: i32,
        last_seq: i64,
        stop_reason: Option<String>,
        archived_at: Option<Timestamp>,
        created_at: Timestamp,
        updated_at: Timestamp,
    }
}

impl TryFrom<Row> for Session {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.id.into(),
            external_id: row.external_id,
            title: row.title,
            metadata: RawValue::from_string(row.metadata).map_err(unreadable(TABLE, "metadata"))?,
            settings: settings_of(&row.settings, row.model_settings.as_deref())?.0,
            workspace: row.workspace,
            forked_from: row
                .forked_from
                .zip(row.forked_at)
                .map(|(source, message_seq)| ForkedFrom { session_id: source.into(), message_seq }),
            parent: parent(row.parent_session_id, row.parent_run_id, row.parent_tool_use_id),
            permission_mode: row
                .permission_mode
                .map(|word| PermissionMode::parse(&word).ok_or(word))
                .transpose()
                .map_err(unreadable(TABLE, "permission_mode"))?,
            remembered: serde_json::from_str(&row.remembered)
                .map_err(unreadable(TABLE, "remembered"))?,
            active_run_id: row.active_run_id.map(Into::into),
            is_waiting: row.is_waiting,
            queued: row.queued,
            last_seq: row.last_seq,
            usage: usage_of!(row),
            cost: row.cost,
            stop_reason: row
                .stop_reason
                .map(|text| serde_json::from_str(&text).map_err(unreadable(TABLE, "stop_reason")))
                .transpose()?,
            archived_at: row.archived_at.map(Timestamp::to_jiff),
            created_at: row.created_at.to_jiff(),
            updated_at: row.updated_at.to_jiff(),
        })
    }
}

/// Inserts a session. Returns false, and inserts nothing, if its key was used before or if another
/// session of the tenant has its external id.
pub async fn insert(conn: &mut PgConnection, new: &NewSession<'_>) -> Result<bool, StoreError> {
    let settings = serde_json::to_string(new.settings).map_err(unreadable(TABLE, "settings"))?;
    let inserted = sqlx::query!(
        "INSERT INTO sessions (id, tenant_id, title, metadata, model, settings, workspace,
                               idempotency_key, idempotency_fingerprint, external_id)
         VALUES ($1, $2, $3, ($4::text)::json, $5, ($6::text)::json, $7, $8, $9, $10)
         ON CONFLICT DO NOTHING",
        new.id.as_uuid(),
        new.tenant_id.as_uuid(),
        new.title,
        new.metadata.get(),
        new.settings.model,
        settings,
        new.workspace,
        new.idempotency_key.map(|(key, _)| key),
        new.idempotency_key.map(|(_, fingerprint)| fingerprint),
        new.external_id,
    )
    .execute(conn)
    .await?;
    Ok(inserted.rows_affected() == 1)
}

/// Finds a session of a tenant.
pub async fn find(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: SessionId,
) -> Result<Option<Session>, StoreError> {
    Ok(select(conn, tenant, &[id.as_uuid()]).await?.pop())
}

/// Finds the session of a tenant that has this external id.
pub async fn find_by_external_id(
    conn: &mut PgConnection,
    tenant: TenantId,
    external_id: &str,
) -> Result<Option<Session>, StoreError> {
    let id = sqlx::query_scalar!(
        "SELECT id FROM sessions WHERE tenant_id = $1 AND external_id = $2",
        tenant.as_uuid(),
        external_id,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(id) = id else { return Ok(None) };
    Ok(select(conn, tenant, &[id]).await?.pop())
}

/// A session that a client continues by its external id.
#[derive(Debug)]
pub struct Continued {
    /// The session.
    pub id: SessionId,
    /// The user of the session.
    pub user: Option<String>,
    /// True if the active run waits for answers to its calls.
    pub is_waiting: bool,
}

/// Like [`find_by_external_id`], with only what a request that continues the session needs.
pub async fn find_continued(
    conn: &mut PgConnection,
    tenant: TenantId,
    external_id: &str,
) -> Result<Option<Continued>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT s.id, s.user_name,
                  EXISTS (SELECT FROM runs r WHERE r.id = s.active_run_id
                            AND r.status = 'requires_action') AS "is_waiting!"
           FROM sessions s WHERE s.tenant_id = $1 AND s.external_id = $2"#,
        tenant.as_uuid(),
        external_id,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| Continued {
        id: row.id.into(),
        user: row.user_name,
        is_waiting: row.is_waiting,
    }))
}

/// Moves an external id from a session to another one of its tenant. Returns false, and changes
/// nothing, if the first one does not have it.
pub async fn move_external_id(
    conn: &mut PgConnection,
    tenant: TenantId,
    (from, to): (SessionId, SessionId),
    external_id: &str,
) -> Result<bool, StoreError> {
    // First, because the id is unique at every moment.
    let freed = sqlx::query!(
        "UPDATE sessions SET external_id = NULL
         WHERE id = $1 AND tenant_id = $2 AND external_id = $3",
        from.as_uuid(),
        tenant.as_uuid(),
        external_id,
    )
    .execute(&mut *conn)
    .await?;
    if freed.rows_affected() == 0 {
        return Ok(false);
    }
    sqlx::query!(
        "UPDATE sessions SET external_id = $3 WHERE id = $1 AND tenant_id = $2",
        to.as_uuid(),
        tenant.as_uuid(),
        external_id,
    )
    .execute(conn)
    .await?;
    Ok(true)
}

/// Lists the forks of a session, in the order of their IDs, which is the order of creation.
pub async fn list_forks(
    conn: &mut PgConnection,
    tenant: TenantId,
    source: SessionId,
    slice: Slice<SessionId>,
) -> Result<Vec<Session>, StoreError> {
    let ids = sqlx::query_scalar!(
        "SELECT id FROM sessions
         WHERE tenant_id = $1 AND forked_from = $2
           AND ($3::uuid IS NULL OR CASE WHEN $4 THEN id > $3 ELSE id < $3 END)
         ORDER BY CASE WHEN $4 THEN id END, CASE WHEN NOT $4 THEN id END DESC
         LIMIT $5",
        tenant.as_uuid(),
        source.as_uuid(),
        slice.from.map(SessionId::as_uuid),
        slice.is_upwards,
        slice.limit,
    )
    .fetch_all(&mut *conn)
    .await?;
    select(conn, tenant, &ids).await
}

/// Reads the sessions with these IDs that belong to the tenant, in the order of their IDs.
pub(super) async fn select(
    conn: &mut PgConnection,
    tenant: TenantId,
    ids: &[Uuid],
) -> Result<Vec<Session>, StoreError> {
    let rows = query_with_usage!(
        Row,
        r#"SELECT s.id, s.external_id, s.title, s.metadata::text AS "metadata!", s.settings::text AS "settings!",
                  s.model_settings::text,
                  s.workspace, s.forked_from, s.forked_at, s.parent_session_id,
                  s.parent_run_id, s.parent_tool_use_id, s.permission_mode,
                  s.remembered::text AS "remembered!", s.active_run_id, s.queued, s.last_seq,
                  EXISTS (SELECT FROM runs r WHERE r.id = s.active_run_id
                            AND r.status = 'requires_action') AS "is_waiting!",
                  s.stop_reason::text, s.archived_at AS "archived_at: Timestamp",
                  s.created_at AS "created_at: Timestamp", s.updated_at AS "updated_at: Timestamp", "#
            + USAGE
            + " FROM sessions s
                WHERE s.tenant_id = $1 AND s.id = ANY ($2)
                ORDER BY s.id",
        tenant.as_uuid(),
        ids,
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Session::try_from).collect()
}

/// Returns a session's todo list, which is empty at first, and the number of its newest event.
/// Returns `None` if the tenant does not have the session.
pub async fn find_todos(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: SessionId,
) -> Result<Option<(Vec<Todo>, i64)>, StoreError> {
    let row = sqlx::query!(
        "SELECT todos::text, last_seq FROM sessions WHERE id = $1 AND tenant_id = $2",
        id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let todos = row.todos.as_deref().map(serde_json::from_str).transpose();
    Ok(Some((todos.map_err(unreadable(TABLE, "todos"))?.unwrap_or_default(), row.last_seq)))
}

/// Returns whether a session is archived, or `None` if the tenant does not have it.
pub async fn is_archived(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: SessionId,
) -> Result<Option<bool>, StoreError> {
    Ok(sqlx::query_scalar!(
        r#"SELECT archived_at IS NOT NULL AS "is_archived!" FROM sessions
           WHERE id = $1 AND tenant_id = $2"#,
        id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(conn)
    .await?)
}

/// Returns whether a session exists, for any tenant.
pub async fn exists(conn: &mut PgConnection, id: SessionId) -> Result<bool, StoreError> {
    Ok(sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM sessions WHERE id = $1) AS "exists!""#,
        id.as_uuid(),
    )
    .fetch_one(conn)
    .await?)
}

/// Returns the number of a session's newest event, or `None` if the tenant does not have it.
pub async fn last_seq(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: SessionId,
) -> Result<Option<i64>, StoreError> {
    Ok(sqlx::query_scalar!(
        "SELECT last_seq FROM sessions WHERE id = $1 AND tenant_id = $2",
        id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(conn)
    .await?)
}
