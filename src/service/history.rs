//! The messages of a session.

use std::collections::HashMap;

use sqlx::{Connection as _, PgConnection};

use super::error::Error;
use super::paging::{ListPage, PageRequest, read_page};
use super::state::Service;
use crate::domain::event::Frame;
use crate::domain::feedback::Feedback;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::message::Role;
use crate::domain::page::Slice;
use crate::domain::tool_error::ToolErrorType;
use crate::store::feedback;
use crate::store::message_events::{MessageEvent, list_message_events, list_unplaced};
use crate::store::messages::{MessageRange, StoredMessage, list};
use crate::store::sessions::last_seq;
use crate::store::tool_calls::list_error_types;

/// A page of a history, and its position among the events of the session. All of it is read in one
/// snapshot.
#[derive(Debug)]
pub(crate) struct HistoryPage {
    /// The messages.
    pub(crate) page: ListPage<StoredMessage, i32>,
    /// The events that report them, by the numbers of the messages.
    pub(crate) events: HashMap<i32, Vec<MessageEvent>>,
    /// The feedback on them, by the ids of the messages.
    pub(crate) feedback: HashMap<String, Feedback>,
    /// The number of the newest event.
    pub(crate) last_seq: i64,
    /// The events up to the newest one whose content is not in the history yet; none if the page does
    /// not contain the end of the history.
    pub(crate) unplaced: Option<Vec<Frame>>,
}

/// Lists the history of a session, by the numbers of the messages.
pub(crate) async fn list_messages(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    request: PageRequest<i32>,
) -> Result<HistoryPage, Error> {
    let read = service.pool.with(tenant, async |conn| {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let mut snapshot = conn.begin_with(begin).await?;
        let read = read_history(&mut snapshot, tenant, session_id, &request).await?;
        snapshot.commit().await?;
        Ok::<_, Error>(read)
    });
    read.await?.ok_or_else(|| Error::SessionNotFound(session_id.to_string()))
}

async fn read_history(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    request: &PageRequest<i32>,
) -> Result<Option<HistoryPage>, Error> {
    let Some(last_seq) = last_seq(conn, tenant, session_id).await? else { return Ok(None) };
    if request.from.is_some() {
        let last = Slice { from: None, is_upwards: false, limit: 1 };
        let newest = list(conn, range(session_id, last)).await?.pop();
        request.check_number(newest.map_or(0, |stored| stored.seq))?;
    }
    let page =
        read_page!(request, |stored| stored.seq, |slice| list(conn, range(session_id, slice)));
    let seqs = || page.items.iter().map(|stored| stored.seq);
    let events = match seqs().min().zip(seqs().max()) {
        Some(ends) => list_message_events(conn, session_id, ends).await?,
        None => HashMap::new(),
    };
    let ids: Vec<String> =
        page.items.iter().filter(|it| is_reply(it)).map(|it| it.message_id.clone()).collect();
    let feedback = feedback::list(conn, session_id, &ids).await?;
    let unplaced =
        if page.reaches_end(request) { Some(list_unplaced(conn, session_id).await?) } else { None };
    Ok(Some(HistoryPage { page, events, feedback, last_seq, unplaced }))
}

/// True for a message of the model, which can have feedback.
pub(crate) fn is_reply(stored: &StoredMessage) -> bool {
    stored.message.role == Role::Assistant
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
