//! Lists of runs.

use super::error::Error;
use super::lookup::newest_event;
use super::paging::{ListPage, PageRequest, read_page};
use super::state::Service;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::run::Run;
use crate::domain::run_status::RunStatus;
use crate::store::runs::{RunFilter, list};

/// Lists the runs of a session, by the numbers of the events that accepted them.
pub(crate) async fn list_runs(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    status: Option<RunStatus>,
    request: PageRequest<i64>,
) -> Result<ListPage<Run, i64>, Error> {
    // Runs are numbered by the events that accepted them.
    request.check_number(newest_event(service, tenant, session_id).await?)?;
    let read = service.pool.with(tenant, async |conn| {
        let filter = |slice| RunFilter { tenant, session_id, only: None, status, slice };
        Ok(read_page!(request, |run| run.accepted_seq, |slice| list(conn, filter(slice))))
    });
    read.await
}
