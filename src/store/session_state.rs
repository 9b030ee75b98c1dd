//! Changes that steps make to their session besides messages and events. Written in the transaction
//! of the step.

use sqlx::PgConnection;

use super::{StoreError, announced_tool_lists, sent_changes, unreadable};
use crate::domain::ids::SessionId;
use crate::domain::state_change::StateChange;
use crate::domain::storable::storable_json_of;

/// Stores the changes, in their order.
pub(super) async fn store(
    conn: &mut PgConnection,
    session_id: SessionId,
    state_changes: &[StateChange],
) -> Result<(), StoreError> {
    for change in state_changes {
        match change {
            // The statement of the step has stored it.
            StateChange::FileRead { .. } => {}
            StateChange::Todos(todos) => {
                let todos = storable_json_of(todos).map_err(unreadable("sessions", "todos"))?;
                sqlx::query!(
                    "UPDATE sessions SET todos = ($2::text)::json WHERE id = $1",
                    session_id.as_uuid(),
                    todos,
                )
                .execute(&mut *conn)
                .await?;
            }
            StateChange::AnnouncedToolLists(lists) => {
                announced_tool_lists::store(conn, session_id, lists).await?;
            }
            StateChange::SentHistory(sent) => sent_changes::insert(conn, session_id, sent).await?,
            StateChange::Compacted(compaction) => {
                sent_changes::insert_compaction(conn, session_id, compaction).await?;
            }
            StateChange::Container(container) => {
                let container = storable_json_of(container)
                    .map_err(unreadable("sessions", "code_container"))?;
                sqlx::query!(
                    "UPDATE sessions SET code_container = ($2::text)::json WHERE id = $1",
                    session_id.as_uuid(),
                    container,
                )
                .execute(&mut *conn)
                .await?;
            }
            StateChange::PermissionMode(mode) => {
                sqlx::query!(
                    "UPDATE sessions SET permission_mode = $2 WHERE id = $1",
                    session_id.as_uuid(),
                    mode.as_str(),
                )
                .execute(&mut *conn)
                .await?;
            }
        }
    }
    Ok(())
}
