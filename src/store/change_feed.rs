//! The feed of changes of sessions, for readers of the session list.
//!
//! Nothing is written for it besides the number of the transaction with each event and session.

use std::str::FromStr as _;

use sqlx::PgConnection;
use uuid::Uuid;

use super::sessions::select;
use super::{StoreError, unreadable};
use crate::domain::feed_position::FeedPosition;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::listed_change::ListedChange;
use crate::domain::session::Session;

/// A changed session.
#[derive(Debug)]
pub struct ChangedSession {
    /// The owner.
    pub tenant: TenantId,
    /// The session.
    pub id: SessionId,
    /// The changes, each once, in no order.
    pub changes: Vec<ListedChange>,
    /// The user and the agent of a deleted session.
    pub deleted: Option<(Option<String>, Option<String>)>,
}

/// The changes between two positions.
#[derive(Debug)]
pub struct FeedPiece {
    /// The changed sessions.
    pub sessions: Vec<ChangedSession>,
    /// The position after them.
    pub to: FeedPosition,
}

/// Returns the position after all committed changes.
pub async fn position(conn: &mut PgConnection) -> Result<FeedPosition, StoreError> {
    let text = sqlx::query_scalar!(
        r#"SELECT floor(extract(epoch FROM clock_timestamp()))::bigint::text || '-'
                  || pg_current_snapshot()::text AS "position!""#
    )
    .fetch_one(conn)
    .await?;
    FeedPosition::from_str(&text).map_err(unreadable("events", "stored_by"))
}

/// Reads which sessions of the tenants have changed after a position, at most `limit`.
///
/// A transaction that the position does not see is read if it has committed since. In a restored
/// database, rows can have numbers that this server has not reached.
pub async fn list_changes(
    conn: &mut PgConnection,
    tenants: &[TenantId],
    after: &FeedPosition,
    limit: i64,
) -> Result<FeedPiece, StoreError> {
    let tenants: Vec<Uuid> = tenants.iter().map(|tenant| tenant.as_uuid()).collect();
    let rows = sqlx::query_file!("src/store/change_feed.sql", &tenants, after.snapshot(), limit)
        .fetch_all(conn)
        .await?;
    let to = rows.first().map(|row| row.position.clone()).unwrap_or_default();
    let to = FeedPosition::from_str(&to).map_err(unreadable("events", "stored_by"))?;
    let sessions = rows.into_iter().filter_map(|row| {
        let names = row.names.unwrap_or_default();
        Some(ChangedSession {
            tenant: row.tenant_id?.into(),
            id: row.session_id?.into(),
            changes: names.iter().filter_map(|name| ListedChange::parse(name)).collect(),
            deleted: row.is_deleted.then_some((row.user_name, row.agent_name)),
        })
    });
    Ok(FeedPiece { sessions: sessions.collect(), to })
}

/// Reads these sessions of a tenant, without those of sub-agents, which are in no list.
pub async fn list_sessions(
    conn: &mut PgConnection,
    tenant: TenantId,
    ids: &[SessionId],
) -> Result<Vec<Session>, StoreError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
    let mut sessions = select(conn, tenant, &ids).await?;
    sessions.retain(|session| session.parent.is_none());
    Ok(sessions)
}

/// Notes the deletion of sessions, in the transaction that deletes them, and forgets old ones.
pub(super) async fn note_deletion(
    conn: &mut PgConnection,
    tenant: TenantId,
    ids: &[Uuid],
) -> Result<(), StoreError> {
    sqlx::query!(
        "WITH forgotten AS (
             DELETE FROM deleted_sessions
             WHERE tenant_id = $1 AND deleted_at < now() - interval '30 days'
         )
         INSERT INTO deleted_sessions (id, tenant_id, user_name, agent_name)
         SELECT id, tenant_id, user_name, settings -> 'agent' ->> 'name'
         FROM sessions
         WHERE tenant_id = $1 AND id = ANY ($2) AND parent_session_id IS NULL
         ON CONFLICT (id) DO NOTHING",
        tenant.as_uuid(),
        ids,
    )
    .execute(conn)
    .await?;
    Ok(())
}
