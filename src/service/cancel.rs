//! Cancelling runs: requests to stop a run, from a client or from a message that interrupts.

use sqlx::PgConnection;

use super::error::Error;
use super::lookup::{find_run, newest_event};
use super::state::Service;
use super::transaction::in_transaction;
use crate::domain::call_end::RunEnd;
use crate::domain::event::Frame;
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::page::Slice;
use crate::domain::run::Run;
use crate::domain::run_status::RunStatus;
use crate::store::StoreError;
use crate::store::events::EventSpan;
use crate::store::runs::{Cancellation, RunFilter, list};
use crate::store::stopping::request_stop;

/// A request to stop a run, in a transaction that is not committed yet.
#[derive(Debug)]
pub(crate) struct StopRequest {
    session_id: SessionId,
    run_id: RunId,
    cancellation: Option<Cancellation>,
    frames: Vec<Frame>,
}

impl StopRequest {
    /// Requests that a run stops; a queued run is settled at once. The run and its session stay
    /// locked for the rest of the caller's transaction.
    pub(crate) async fn make(
        conn: &mut PgConnection,
        tenant: TenantId,
        session_id: SessionId,
        run_id: RunId,
        by: RunEnd,
    ) -> Result<Self, Error> {
        let (cancellation, frames) = request_stop(conn, tenant, session_id, run_id, by).await?;
        Ok(Self { session_id, run_id, cancellation, frames })
    }

    /// The run.
    pub(crate) const fn run_id(&self) -> RunId {
        self.run_id
    }

    /// The events of the request.
    pub(crate) fn events(&self) -> Option<EventSpan> {
        EventSpan::of(&self.frames)
    }

    /// Returns true if the run has settled, as of the transaction of the request.
    pub(crate) fn is_settled(&self) -> bool {
        match self.cancellation {
            None | Some(Cancellation::Queued | Cancellation::Settled) => true,
            Some(Cancellation::Requested | Cancellation::Unclaimed | Cancellation::Repeated) => {
                false
            }
        }
    }

    /// Publishes the events, and notifies the worker that has to act. Called after the commit.
    pub(crate) fn publish(self, service: &Service) {
        service.bus.publish(self.session_id, self.frames);
        match self.cancellation {
            Some(Cancellation::Requested | Cancellation::Repeated) => {
                service.bus.cancel(self.run_id);
            }
            Some(Cancellation::Unclaimed) => service.bus.announce_work(),
            Some(Cancellation::Queued) => {
                service.metrics.run_settled(RunStatus::Cancelled);
                service.bus.queue_changed();
            }
            Some(Cancellation::Settled) | None => {}
        }
    }
}

/// A run that was requested to stop.
#[derive(Debug)]
pub(crate) struct StoppedRun {
    /// The run, after the request.
    pub(crate) run: Run,
    /// The events of the request; none if an earlier request had the same effect.
    pub(crate) events: Option<EventSpan>,
}

/// Requests that a run stops, and returns the run. A settled run stays as it is.
pub(crate) async fn cancel_run(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    run_id: RunId,
) -> Result<StoppedRun, Error> {
    let run = find_run(service, tenant, session_id, run_id).await?;
    if run.status.is_terminal() {
        return Ok(StoppedRun { run, events: None });
    }
    let request = async |conn: &mut PgConnection| {
        StopRequest::make(conn, tenant, session_id, run_id, RunEnd::Client).await
    };
    let stop = in_transaction(service, tenant, request).await?;
    let events = stop.events();
    stop.publish(service);
    let run = find_run(service, tenant, session_id, run_id).await?;
    Ok(StoppedRun { run, events })
}

/// Requests that all runs of a session stop, and returns them.
pub(crate) async fn cancel_session(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
) -> Result<Vec<StoppedRun>, Error> {
    newest_event(service, tenant, session_id).await?;
    let list = async |conn: &mut PgConnection| list_open(conn, tenant, session_id).await;
    let mut runs = Vec::new();
    for run_id in service.pool.with(tenant, list).await? {
        runs.push(cancel_run(service, tenant, session_id, run_id).await?);
    }
    Ok(runs)
}

/// The runs of a session that have not settled, in the order in which they must be stopped: queued
/// runs first, because one of them would start when the active run ends.
pub(crate) async fn list_open(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
) -> Result<Vec<RunId>, StoreError> {
    let mut open = Vec::new();
    for status in [RunStatus::Queued, RunStatus::RequiresAction, RunStatus::Running] {
        let status = Some(status);
        let filter = RunFilter { tenant, session_id, only: None, status, slice: Slice::first(200) };
        open.extend(list(conn, filter).await?.into_iter().map(|run| run.id));
    }
    Ok(open)
}
