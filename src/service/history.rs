//! The messages of a session.

use std::collections::HashMap;

use sqlx::PgConnection;

use super::error::Error;
use super::lookup::newest_event;
use super::paging::{ListPage, PageRequest, read_page};
use super::state::Service;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::page::Slice;
use crate::domain::tool_error::ToolErrorType;
use crate::store::messages::{MessageRange, StoredMessage, list};
use crate::store::tool_calls::list_error_types;

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

/// The types of the failures of calls, by the number of the message that contains the call and the id
/// of the call. Calls that succeeded, and failures without a type, have `None`.
pub(crate) type ErrorTypes = HashMap<(i32, String), Option<ToolErrorType>>;

/// Reads the types of the failures that these messages report. Messages that a fork shares with its
/// source, and imported ones, have no stored calls.
pub(crate) async fn error_types(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    messages: &[StoredMessage],
) -> Result<ErrorTypes, Error> {
    // The results of calls are in the message after that of the calls.
    let seqs: Vec<i32> = messages.iter().map(|stored| stored.seq - 1).collect();
    let list = async |conn: &mut PgConnection| list_error_types(conn, session_id, &seqs).await;
    let listed = service.pool.with(tenant, list).await?;
    Ok(listed.into_iter().map(|call| ((call.message_seq, call.tool_use_id), call.kind)).collect())
}

/// The range of a slice. Messages are numbered from 1.
fn range(session_id: SessionId, Slice { from, is_upwards, limit }: Slice<i32>) -> MessageRange {
    let (after, before) =
        if is_upwards { (from.unwrap_or(0), None) } else { (0, from.or(Some(i32::MAX))) };
    MessageRange { session_id, after, before, limit }
}
