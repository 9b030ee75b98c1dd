//! Reading the present state of changed sessions.

use std::collections::HashMap;

use sqlx::PgConnection;

use super::item::{FeedItem, FeedState};
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::listed_change::ListedChange;
use crate::domain::session::Session;
use crate::service::error::Error;
use crate::service::state::Service;
use crate::store::change_feed::{ChangedSession, list_sessions};

/// The present state of changed sessions.
pub(super) async fn read_items(
    service: &Service,
    tenant: TenantId,
    changed: &[ChangedSession],
) -> Result<Vec<FeedItem>, Error> {
    let ids: Vec<SessionId> =
        changed.iter().filter(|it| it.deleted.is_none()).map(|it| it.id).collect();
    let sessions = if ids.is_empty() {
        Vec::new()
    } else {
        let read = async |conn: &mut PgConnection| list_sessions(conn, tenant, &ids).await;
        service.pool.with(tenant, read).await?
    };
    let mut sessions: HashMap<SessionId, Session> =
        sessions.into_iter().map(|session| (session.id, session)).collect();
    let item = |changed: &ChangedSession| {
        let state = match &changed.deleted {
            Some((user, agent)) => FeedState::Deleted { user: user.clone(), agent: agent.clone() },
            // None if it was deleted a moment ago, which the next read reports.
            None => FeedState::Session(Box::new(sessions.remove(&changed.id)?)),
        };
        let changes = match state {
            FeedState::Session(_) => changed.changes.clone(),
            FeedState::Deleted { .. } => vec![ListedChange::Deleted],
        };
        Some(FeedItem { id: changed.id, changes, state, encoded: Default::default() })
    };
    Ok(changed.iter().filter_map(item).collect())
}
