//! What the database knows of sessions' folders.

use sqlx::PgConnection;
use uuid::Uuid;

use super::StoreError;
use crate::domain::ids::SessionId;

/// Which database this is, among all that there are: those that were made of a dump of this one are
/// others, where the server lets its users ask which it is.
pub async fn database_id(conn: &mut PgConnection) -> Result<String, StoreError> {
    let id = sqlx::query_scalar!(r#"SELECT database_identity() AS "id!""#).fetch_one(conn).await?;
    Ok(id)
}

/// Those of these sessions that do not exist, whoever's they would be.
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
