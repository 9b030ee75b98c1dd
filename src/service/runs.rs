//! Lists of runs.

use sqlx::PgConnection;

use super::error::Error;
use super::lookup::newest_event;
use super::paging::{ListPage, PageRequest};
use super::state::Service;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::run::Run;
use crate::domain::run_status::RunStatus;
use crate::store::runs::{Filter, list};

/// Lists the runs of a session, by the numbers of the events that accepted them.
pub(crate) async fn list_runs(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    status: Option<RunStatus>,
    request: PageRequest<i64>,
) -> Result<ListPage<Run, i64>, Error> {
    newest_event(service, tenant, session_id).await?;
    let read = service.pool.with(tenant, async |conn| {
        let filter = |slice| Filter { tenant, session_id, only: None, status, slice };
        let list = async |conn: &mut PgConnection, slice| list(conn, filter(slice)).await;
        request.read(conn, |run: &Run| run.accepted_seq, list).await
    });
    Ok(read.await?)
}
