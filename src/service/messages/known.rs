//! Messages of users that a session has received before.

use sqlx::PgConnection;

use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::message::Content;
use crate::service::error::Error;
use crate::service::state::Service;
use crate::store::accept::find_earlier;
use crate::store::turns::list_inputs;

/// A message of a user that a session has received before.
#[derive(Debug)]
pub(crate) struct KnownMessage {
    /// The run that it started in this session; none if a fork inherited the message.
    pub(crate) run_id: Option<RunId>,
    /// Its content; none if it never entered the history.
    pub(crate) content: Option<Content>,
}

/// Finds a message of a user by the id that the client has given it.
pub(crate) async fn find_known(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    message_id: &str,
) -> Result<Option<KnownMessage>, Error> {
    // The database cannot compare a text with a NUL.
    if message_id.contains('\0') {
        return Ok(None);
    }
    let read = async |conn: &mut PgConnection| {
        let run = find_earlier(conn, tenant, session_id, None, Some(message_id)).await?;
        let mut inputs = list_inputs(conn, session_id, &[message_id.to_owned()]).await?;
        Ok::<_, Error>((run.map(|run| run.run_id), inputs.remove(message_id)))
    };
    let (run_id, content) = service.pool.with(tenant, read).await?;
    let is_known = run_id.is_some() || content.is_some();
    Ok(is_known.then_some(KnownMessage { run_id, content }))
}
