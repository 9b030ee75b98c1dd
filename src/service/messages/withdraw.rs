//! Withdrawing a queued message, which an edited one replaces.

use sqlx::PgConnection;

use crate::domain::call_end::RunEnd;
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::service::cancel::StopRequest;
use crate::service::error::Error;
use crate::service::state::Service;
use crate::service::transaction::in_transaction;
use crate::store::withdrawn::{list_queued_from, release_message_id};

/// Withdraws a message that has not entered the history: its run and the queued runs after it are
/// cancelled, and the client may use the ids of their messages again. Returns false if the run has
/// started; it is then asked to stop.
pub(crate) async fn withdraw_message(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    run_id: RunId,
) -> Result<bool, Error> {
    let work = async |conn: &mut PgConnection| {
        let by = RunEnd::Client;
        // The first request locks the session.
        let mut stopped = vec![StopRequest::make(conn, tenant, session_id, run_id, by).await?];
        let is_withdrawn = release_message_id(conn, tenant, run_id).await?;
        for later in list_queued_from(conn, tenant, session_id, run_id).await? {
            stopped.push(StopRequest::make(conn, tenant, session_id, later, by).await?);
            release_message_id(conn, tenant, later).await?;
        }
        Ok((stopped, is_withdrawn))
    };
    let (stopped, is_withdrawn) = in_transaction(service, tenant, work).await?;
    for request in stopped {
        request.publish(service);
    }
    Ok(is_withdrawn)
}
