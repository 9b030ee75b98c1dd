//! The tool lists that a session's events have announced to the model, by tool server.

use sqlx::PgConnection;

use super::{StoreError, unreadable};
use crate::domain::ids::SessionId;
use crate::domain::state_change::AnnouncedToolLists;
use crate::domain::storable::storable_json_of;

/// Reads the hashes of the last announcements.
pub async fn find(
    conn: &mut PgConnection,
    id: SessionId,
) -> Result<AnnouncedToolLists, StoreError> {
    let lists =
        sqlx::query_scalar!("SELECT told_servers::text FROM sessions WHERE id = $1", id.as_uuid(),)
            .fetch_optional(conn)
            .await?;
    let Some(lists) = lists.flatten() else { return Ok(AnnouncedToolLists::new()) };
    serde_json::from_str(&lists).map_err(unreadable("sessions", "told_servers"))
}

/// Stores the hashes that a step announces.
pub(super) async fn store(
    conn: &mut PgConnection,
    id: SessionId,
    lists: &AnnouncedToolLists,
) -> Result<(), StoreError> {
    let lists = storable_json_of(lists).map_err(unreadable("sessions", "told_servers"))?;
    sqlx::query!(
        "UPDATE sessions SET told_servers = ($2::text)::json WHERE id = $1",
        id.as_uuid(),
        lists,
    )
    .execute(conn)
    .await?;
    Ok(())
}
