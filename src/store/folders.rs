//! Facts about the workspace folders of sessions.

use sqlx::PgConnection;
use uuid::Uuid;

use super::StoreError;
use crate::domain::ids::SessionId;

/// Returns the identity of this database. A database restored from a dump of this one has another
/// identity, if the server lets its users read the system identifier.
pub async fn database_id(conn: &mut PgConnection) -> Result<String, StoreError> {
    let id = sqlx::query_scalar!(r#"SELECT database_identity() AS "id!""#).fetch_one(conn).await?;
    Ok(id)
}

/// Returns those of the sessions that no longer exist, for any tenant.
pub async fn list_gone(
    conn: &mut PgConnection,
    ids: &[SessionId],
) -> Result<Vec<SessionId>, StoreError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
    let gone = sqlx::query_scalar!(
        r#"SELECT asked.id AS "id!" FROM unnest($1::uuid[]) AS asked (id)
           WHERE NOT EXISTS (SELECT FROM sessions s WHERE s.id = asked.id)"#,
        &ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(gone.into_iter().map(Into::into).collect())
}
