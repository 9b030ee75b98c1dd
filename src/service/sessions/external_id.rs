//! Sessions by the id that a client has given them.

use sqlx::PgConnection;

use super::create::{CreatedSession, Creation, create_session};
use super::fork::{CreateFork, ForkSource, create_fork};
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::session::Session;
use crate::service::creator::Creator;
use crate::service::deadline::in_time;
use crate::service::error::Error;
use crate::service::session_settings::CreateSession;
use crate::service::state::Service;
use crate::store::sessions::{Continued, find_by_external_id, find_continued};

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

/// The session of a conversation.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) id: SessionId,
    pub(crate) is_new: bool,
    /// True if the active run waits for answers to its calls.
    pub(crate) is_waiting: bool,
}

/// Finds or creates the session with the external id of the request, like [`create_session`], but reads
/// only a little of one that exists: each message of an adapter begins with this.
pub(crate) async fn open_conversation(
    service: &Service,
    creator: &Creator,
    request: CreateSession,
) -> Result<Conversation, Error> {
    creator.check(&request)?;
    request.check()?;
    if let Some(external_id) = &request.external_id {
        let tenant = creator.tenant;
        let find = async |conn: &mut PgConnection| find_continued(conn, tenant, external_id).await;
        if let Some(Continued { id, user, is_waiting }) =
            in_time(service.pool.with(tenant, find)).await?
        {
            check_user(request.user.as_deref(), user.as_deref())?;
            return Ok(Conversation { id, is_new: false, is_waiting });
        }
    }
    let CreatedSession { session, creation } =
        create_session(service, creator, request, None).await?;
    let is_new = creation == Creation::New;
    Ok(Conversation { id: session.id, is_new, is_waiting: session.is_waiting })
}

/// Refuses a request for the session of another user. Browsers choose external ids: one user must not
/// get the session of another.
pub(super) fn check_user(named: Option<&str>, owner: Option<&str>) -> Result<(), Error> {
    if named.is_some() && named != owner {
        return Err(Error::ExternalIdTaken);
    }
    Ok(())
}

/// Forks a session and moves its external id to the fork, both or neither. The source keeps everything
/// else. A repeated request with the same key returns the same fork.
pub(crate) async fn replace_by_fork(
    service: &Service,
    source: ForkSource<'_>,
    request: CreateFork,
) -> Result<SessionId, Error> {
    let CreatedSession { session, creation } = create_fork(service, source, request).await?;
    if creation == Creation::New {
        return Ok(session.id);
    }
    // The fork of an earlier request may have been replaced since.
    let is_present = session.external_id.as_deref() == source.passed_on;
    if is_present { Ok(session.id) } else { Err(Error::VersionMismatch) }
}
