//! The session of a conversation of another protocol.

use sqlx::PgConnection;

use super::create::{CreatedSession, Creation, check_user, create_session};
use crate::domain::ids::SessionId;
use crate::service::creator::Creator;
use crate::service::deadline::in_time;
use crate::service::error::Error;
use crate::service::known_sessions::KnownConversation;
use crate::service::session_settings::CreateSession;
use crate::service::state::Service;
use crate::store::sessions::{Continued, find_continued};

/// The session of a conversation.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) id: SessionId,
    pub(crate) is_new: bool,
    /// True if the active run waits for answers to its calls.
    pub(crate) is_waiting: bool,
}

/// The session with the external id of the request, if this process knows it.
pub(crate) fn find_known_conversation(
    service: &Service,
    creator: &Creator,
    request: &CreateSession,
) -> Result<Option<KnownConversation>, Error> {
    creator.check(request)?;
    request.check()?;
    let external_id = request.external_id.as_deref();
    let known = external_id.and_then(|id| service.known_sessions.find(creator.tenant, id));
    if let Some(known) = &known {
        check_user(request.user.as_deref(), known.user.as_deref())?;
    }
    // Another process may have accepted a newer message.
    let forget = |known| KnownConversation { newest: None, ..known };
    Ok(if service.bus.has_peers() { known.map(forget) } else { known })
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
            service.known_sessions.set_external_id(tenant, id, external_id);
            return Ok(Conversation { id, is_new: false, is_waiting });
        }
    }
    let CreatedSession { session, creation } =
        create_session(service, creator, request, None).await?;
    let is_new = creation == Creation::New;
    Ok(Conversation { id: session.id, is_new, is_waiting: session.is_waiting })
}
