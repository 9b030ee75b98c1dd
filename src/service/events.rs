//! Lists of the events of a session.

use sqlx::PgConnection;

use super::error::Error;
use super::lookup::newest_event;
use super::paging::{ListPage, PageRequest};
use super::state::Service;
use crate::domain::event::Frame;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::page::Slice;
use crate::domain::run::Run;
use crate::store::StoreError;
use crate::store::events::{EventRange, list, list_slice};
use crate::store::typed_events::{FoundEvents, list_types};

/// Lists the events of a session with these types, by their numbers; of all types if there are
/// none.
pub(crate) async fn list_events(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    types: Option<Vec<&'static str>>,
    request: PageRequest<i64>,
) -> Result<ListPage<Frame, i64>, Error> {
    let newest = newest_event(service, tenant, session_id).await?;
    request.check_number(newest)?;
    let query = EventQuery { session_id, newest, types };
    let read = service.pool.with(tenant, async |conn| {
        let FoundEvents { frames, up_to } = query.find(conn, request.slice()).await?;
        let mut page = request.page_up_to(frames, up_to, |frame| frame.seq);
        if let Some(back) = page.slice_before() {
            let found = query.find(conn, back).await?;
            page.set_has_previous(!found.frames.is_empty() || found.up_to.is_some());
        }
        Ok::<_, StoreError>(page)
    });
    Ok(read.await?)
}

/// Lists the next events of a run after this number, some at a time.
pub(crate) async fn list_run_events(
    service: &Service,
    tenant: TenantId,
    run: &Run,
    after: i64,
) -> Result<Vec<Frame>, Error> {
    let range = EventRange { session_id: run.session_id, run_id: Some(run.id), after, limit: 256 };
    Ok(service.pool.with(tenant, async |conn| list(conn, range).await).await?)
}

/// A query for the events of a list.
struct EventQuery {
    session_id: SessionId,
    /// The number of the session's newest event.
    newest: i64,
    /// The types of the events; all types when absent.
    types: Option<Vec<&'static str>>,
}

impl EventQuery {
    async fn find(
        &self,
        conn: &mut PgConnection,
        slice: Slice<i64>,
    ) -> Result<FoundEvents, StoreError> {
        if let Some(types) = &self.types {
            return list_types(conn, self.session_id, self.newest, slice, types).await;
        }
        Ok(FoundEvents { frames: list_slice(conn, self.session_id, slice).await?, up_to: None })
    }
}
