//! Tenants: the owners of sessions.

use sqlx::PgConnection;

use super::{StoreError, unreadable};
use crate::domain::ids::{SessionId, TenantId};

/// Returns the name of a session's owner, or `None` if the session is deleted.
pub async fn name_of_owner(
    conn: &mut PgConnection,
    session_id: SessionId,
) -> Result<Option<String>, StoreError> {
    let name = sqlx::query_scalar!(
        "SELECT tenants.name FROM sessions JOIN tenants ON tenants.id = sessions.tenant_id
         WHERE sessions.id = $1",
        session_id.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(name)
}

/// Returns the name of a session's user: the name that is pinned, or that of the API key that created
/// the session, or else that of the owner. Returns `None` if the session is deleted.
pub async fn name_of_user(
    conn: &mut PgConnection,
    session_id: SessionId,
) -> Result<Option<String>, StoreError> {
    let name = sqlx::query_scalar!(
        r#"SELECT coalesce(s.settings->>'user', k.name, t.name) AS "name!"
           FROM sessions s JOIN tenants t ON t.id = s.tenant_id
           LEFT JOIN api_keys k ON k.id = (s.settings->>'created_by')::uuid
           WHERE s.id = $1"#,
        session_id.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(name)
}

/// Returns a session's owner, or `None` if the session is deleted.
pub async fn owner(
    conn: &mut PgConnection,
    session_id: SessionId,
) -> Result<Option<TenantId>, StoreError> {
    let id =
        sqlx::query_scalar!("SELECT tenant_id FROM sessions WHERE id = $1", session_id.as_uuid())
            .fetch_optional(conn)
            .await?;
    Ok(id.map(Into::into))
}

/// Finds a tenant by its name.
pub async fn find(conn: &mut PgConnection, name: &str) -> Result<Option<TenantId>, StoreError> {
    let id = sqlx::query_scalar!("SELECT id FROM tenants WHERE name = $1", name)
        .fetch_optional(conn)
        .await?;
    Ok(id.map(Into::into))
}

/// Inserts a tenant. Returns false if the name exists.
pub async fn insert(conn: &mut PgConnection, id: TenantId, name: &str) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "INSERT INTO tenants (id, name) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
        id.as_uuid(),
        name,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Finds a tenant by its name, or inserts a new one.
pub async fn find_or_insert(conn: &mut PgConnection, name: &str) -> Result<TenantId, StoreError> {
    if let Some(id) = find(conn, name).await? {
        return Ok(id);
    }
    let id = TenantId::new();
    if insert(conn, id, name).await? {
        return Ok(id);
    }
    // Another process inserted it first. Tenants are never deleted.
    find(conn, name).await?.ok_or_else(|| unreadable("tenants", "name")("the row was deleted"))
}
