//! Facts about a run, from which its current wait is explained.

use sqlx::PgConnection;

use super::error::Error;
use super::executing_calls::executing;
use super::lookup::newest_event;
use super::state::Service;
use crate::domain::explanation::{Facts, OpenCall, after};
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::run_status::RunStatus;
use crate::domain::tool::{CallState, ToolClass};
use crate::store::explain::find;
use crate::store::run_queue::find_position;
use crate::tools::Registry;

/// Reads the facts about a run, with the deadlines of its running calls.
pub(crate) async fn explain_run(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    run_id: RunId,
) -> Result<Facts, Error> {
    let find = async |conn: &mut PgConnection| find(conn, tenant, session_id, run_id).await;
    let Some(mut facts) = service.pool.with(tenant, find).await? else {
        newest_event(service, tenant, session_id).await?;
        return Err(Error::RunNotFound(run_id.to_string()));
    };
    if facts.status == RunStatus::Queued && facts.behind.is_none() {
        let find = async |conn: &mut PgConnection| find_position(conn, run_id).await;
        facts.queue = service.admission_pool.with(find).await?;
    }
    for call in &mut facts.calls {
        set_deadline(&service.tools, call);
    }
    mark_executing(&service.tools, &mut facts);
    Ok(facts)
}

/// Sets the state of the calls that a worker executes without a record in the ledger.
fn mark_executing(tools: &Registry, facts: &mut Facts) {
    let is_held = facts.status == RunStatus::Running
        && facts.cancel_requested_at.is_none()
        && facts.lease_until.is_some_and(|until| until > facts.now);
    let is_waiting = facts.calls.iter().any(|call| call.awaits.is_some());
    if !is_held || is_waiting {
        return;
    }
    let calls = facts.calls.iter().map(|call| (call.name.as_str(), call.state));
    for position in executing(tools, calls) {
        if let Some(call) = facts.calls.get_mut(position) {
            call.state = CallState::Started;
        }
    }
}

/// Sets the deadline of a running call, which only the tool catalog knows.
fn set_deadline(tools: &Registry, call: &mut OpenCall) {
    // A sub-agent has the limits of its own run instead.
    if call.state == CallState::Started && tools.class(&call.name) != ToolClass::SubAgent {
        let timing = tools.timing(&call.name);
        call.deadline = timing.and_then(|timing| after(call.since, timing.deadline()));
    }
}
