//! What the events of a session have told of the lists of tool servers.

use sqlx::PgConnection;

use super::{StoreError, unreadable};
use crate::domain::ids::SessionId;
use crate::domain::note::ToldServers;

/// What was told last.
pub async fn find(conn: &mut PgConnection, id: SessionId) -> Result<ToldServers, StoreError> {
    let told =
        sqlx::query_scalar!("SELECT told_servers::text FROM sessions WHERE id = $1", id.as_uuid(),)
            .fetch_optional(conn)
            .await?;
    let Some(told) = told.flatten() else { return Ok(ToldServers::new()) };
    serde_json::from_str(&told).map_err(unreadable("sessions", "told_servers"))
}

/// Notes what a step tells.
pub(super) async fn keep(
    conn: &mut PgConnection,
    id: SessionId,
    told: &ToldServers,
) -> Result<(), StoreError> {
    let told = serde_json::to_string(told).map_err(unreadable("sessions", "told_servers"))?;
    sqlx::query!(
        "UPDATE sessions SET told_servers = ($2::text)::json WHERE id = $1",
        id.as_uuid(),
        told,
    )
    .execute(conn)
    .await?;
    Ok(())
}
