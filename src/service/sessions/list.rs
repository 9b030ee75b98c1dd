//! Finding and listing sessions.

use sqlx::Connection as _;

use crate::domain::ids::{SessionId, TenantId};
use crate::domain::session::Session;
use crate::domain::session_filter::SessionFilter;
use crate::domain::state_change::Todo;
use crate::service::error::Error;
use crate::service::lookup::newest_event;
use crate::service::paging::{ListPage, PageRequest, read_page};
use crate::service::state::Service;
use crate::store::session_list;
use crate::store::sessions::{self, find};

/// Finds a session.
pub(crate) async fn find_session(
    service: &Service,
    tenant: TenantId,
    id: SessionId,
) -> Result<Session, Error> {
    let session = service.pool.with(tenant, async |conn| find(conn, tenant, id).await).await?;
    session.ok_or_else(|| Error::SessionNotFound(id.to_string()))
}

/// Lists the sessions of a tenant that match a filter.
pub(crate) async fn list_sessions(
    service: &Service,
    tenant: TenantId,
    filter: &SessionFilter,
    request: PageRequest<SessionId>,
) -> Result<ListPage<Session, SessionId>, Error> {
    let read = service.pool.with(tenant, async |conn| {
        // The search sets parameters for its transaction.
        let mut transaction = conn.begin().await?;
        let page = read_page!(request, |session| session.id, |slice| {
            session_list::list(&mut transaction, tenant, filter, slice)
        });
        transaction.commit().await?;
        Ok(page)
    });
    read.await
}

/// Lists the sessions that were forked from a session, without forks of forks.
pub(crate) async fn list_forks(
    service: &Service,
    tenant: TenantId,
    source: SessionId,
    request: PageRequest<SessionId>,
) -> Result<ListPage<Session, SessionId>, Error> {
    newest_event(service, tenant, source).await?;
    let read = service.pool.with(tenant, async |conn| {
        Ok(read_page!(request, |fork| fork.id, |slice| {
            sessions::list_forks(conn, tenant, source, slice)
        }))
    });
    read.await
}

/// The todo list of a session.
#[derive(Debug)]
pub(crate) struct SessionTodos {
    /// The items, in the order of the model.
    pub(crate) todos: Vec<Todo>,
    /// The version of the session.
    pub(crate) last_seq: i64,
}

/// Reads the todo list of a session.
pub(crate) async fn find_todos(
    service: &Service,
    tenant: TenantId,
    id: SessionId,
) -> Result<SessionTodos, Error> {
    let read = service.pool.with(tenant, async |conn| sessions::find_todos(conn, tenant, id).await);
    let found = read.await?.ok_or_else(|| Error::SessionNotFound(id.to_string()))?;
    let (todos, last_seq) = found;
    Ok(SessionTodos { todos, last_seq })
}
