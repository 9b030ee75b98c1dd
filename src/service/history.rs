//! The messages of a session.

use super::error::Error;
use super::lookup::newest_event;
use super::paging::{ListPage, PageRequest, read_page};
use super::state::Service;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::page::Slice;
use crate::store::messages::{MessageRange, StoredMessage, list};

/// Lists the history of a session, by the numbers of the messages.
pub(crate) async fn list_messages(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    request: PageRequest<i32>,
) -> Result<ListPage<StoredMessage, i32>, Error> {
    newest_event(service, tenant, session_id).await?;
    let read = service.pool.with(tenant, async |conn| {
        Ok(read_page!(request, |stored| stored.seq, |slice| list(conn, range(session_id, slice))))
    });
    read.await
}

/// The range of a slice. Messages are numbered from 1.
fn range(session_id: SessionId, Slice { from, is_upwards, limit }: Slice<i32>) -> MessageRange {
    let (after, before) =
        if is_upwards { (from.unwrap_or(0), None) } else { (0, from.or(Some(i32::MAX))) };
    MessageRange { session_id, after, before, limit }
}
