//! Sessions by the id that a client has given them.

use sqlx::PgConnection;

use super::create::{CreatedSession, Creation};
use super::fork::{CreateFork, ForkSource, create_fork};
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::session::Session;
use crate::service::error::Error;
use crate::service::state::Service;
use crate::store::sessions::find_by_external_id;

/// Finds the session with this external id; an error if there is none.
pub(crate) async fn find_by_client_id(
    service: &Service,
    tenant: TenantId,
    external_id: &str,
) -> Result<Session, Error> {
    let missing = || Error::SessionNotFound(external_id.to_owned());
    // The database cannot compare a text with a NUL.
    if external_id.contains('\0') {
        return Err(missing());
    }
    let find = async |conn: &mut PgConnection| find_by_external_id(conn, tenant, external_id).await;
    service.pool.with(tenant, find).await?.ok_or_else(missing)
}

/// Forks a session and moves its external id to the fork, both or neither. The source keeps everything
/// else. A repeated request with the same key returns the same fork.
pub(crate) async fn replace_by_fork(
    service: &Service,
    source: ForkSource<'_>,
    request: CreateFork,
) -> Result<SessionId, Error> {
    let source_id = source.session_id;
    let CreatedSession { session, creation } = create_fork(service, source, request).await?;
    if source.passed_on.is_some() {
        service.known_sessions.remove(source_id);
    }
    if creation == Creation::New {
        return Ok(session.id);
    }
    // The fork of an earlier request may have been replaced since.
    let is_present = session.external_id.as_deref() == source.passed_on;
    if is_present { Ok(session.id) } else { Err(Error::VersionMismatch) }
}
