//! Sessions and runs that a request names.

use super::error::Error;
use super::executing_calls::executing;
use super::paging::CursorSource;
use super::state::Service;
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::run::Run;
use crate::domain::tool::CallState;
use crate::store::events::{EventRange, list as list_events};
use crate::store::runs::{find, find_busy, session_of};
use crate::store::sessions::last_seq;

/// The number of the newest event of a session; an error if the session does not exist.
pub(crate) async fn newest_event(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
) -> Result<i64, Error> {
    let newest = service.pool.with(tenant, async |conn| last_seq(conn, tenant, session_id).await);
    newest.await?.ok_or_else(|| Error::SessionNotFound(session_id.to_string()))
}

/// Refuses an event number that the session has not reached. A reader that starts there would take
/// the next events for old ones.
pub(crate) async fn check_reached(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    after: i64,
    source: CursorSource,
) -> Result<(), Error> {
    source.check_number(after, newest_event(service, tenant, session_id).await?)
}

/// A run; an error if the run or its session does not exist.
pub(crate) async fn find_run(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    run_id: RunId,
) -> Result<Run, Error> {
    let run = service.pool.with(tenant, async |conn| find(conn, tenant, session_id, run_id).await);
    if let Some(mut run) = run.await? {
        mark_executing(service, &mut run);
        return Ok(run);
    }
    newest_event(service, tenant, session_id).await?;
    Err(Error::RunNotFound(run_id.to_string()))
}

/// A run in whichever session it is; an error if it does not exist.
pub(crate) async fn find_run_by_id(
    service: &Service,
    tenant: TenantId,
    run_id: RunId,
) -> Result<Run, Error> {
    let find = async |conn: &mut _| session_of(conn, tenant, run_id).await;
    let session_id = service.pool.with(tenant, find).await?;
    let session_id = session_id.ok_or_else(|| Error::RunNotFound(run_id.to_string()))?;
    find_run(service, tenant, session_id, run_id).await
}

/// The active run of a session, otherwise its first queued one, otherwise its newest one.
pub(crate) async fn find_current_run(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
) -> Result<Option<Run>, Error> {
    let find = async |conn: &mut _| find_busy(conn, tenant, session_id).await;
    match service.pool.with(tenant, find).await? {
        Some(run_id) => find_run(service, tenant, session_id, run_id).await.map(Some),
        None => Ok(None),
    }
}

/// Sets the state of the calls that a worker executes without a record in the ledger.
fn mark_executing(service: &Service, run: &mut Run) {
    if !run.log.is_executing {
        return;
    }
    let calls = run.log.calls.iter().map(|call| (call.name.as_str(), call.state));
    for position in executing(&service.tools, calls) {
        if let Some(call) = run.log.calls.get_mut(position) {
            call.state = CallState::Started;
        }
    }
}

/// Returns true if a run has settled and has no event after this one.
pub(crate) async fn has_ended(
    service: &Service,
    tenant: TenantId,
    run: &Run,
    after: i64,
) -> Result<bool, Error> {
    if !run.status.is_terminal() {
        return Ok(false);
    }
    let range = EventRange { session_id: run.session_id, run_id: Some(run.id), after, limit: 1 };
    let later = service.pool.with(tenant, async |conn| list_events(conn, range).await).await?;
    Ok(later.is_empty())
}
