//! Finding and listing sessions.

use sqlx::Connection as _;

use crate::domain::ids::{SessionId, TenantId};
use crate::domain::session::Session;
use crate::domain::session_filter::SessionFilter;
use crate::service::error::Error;
use crate::service::lookup::newest_event;
use crate::service::paging::{ListPage, PageRequest};
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
        let sessions =
            session_list::list(&mut transaction, tenant, filter, request.slice()).await?;
        let mut page = request.page(sessions, |session| session.id);
        if let Some(slice) = page.slice_before() {
            let found = session_list::list(&mut transaction, tenant, filter, slice).await?;
            page.set_has_previous(!found.is_empty());
        }
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
        let forks = sessions::list_forks(conn, tenant, source, request.slice()).await?;
        let mut page = request.page(forks, |fork| fork.id);
        if let Some(slice) = page.slice_before() {
            let found = sessions::list_forks(conn, tenant, source, slice).await?;
            page.set_has_previous(!found.is_empty());
        }
        Ok(page)
    });
    read.await
}
