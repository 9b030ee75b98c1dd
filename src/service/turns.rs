//! The turns of a conversation, with the events of their runs.

use std::collections::HashMap;

use sqlx::{Connection as _, PgConnection};

use super::error::Error;
use super::state::Service;
use crate::domain::event::Frame;
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::message::Content;
use crate::domain::page::Slice;
use crate::domain::run::Run;
use crate::domain::run_status::RunStatus;
use crate::store::runs::{RunFilter, list as list_runs};
use crate::store::turns::{Turn, list_inputs, list_turn_events, list_turns as list};

/// A user message, and everything that happened up to its answer.
#[derive(Debug)]
pub(crate) struct ConversationTurn {
    /// The run.
    pub(crate) run_id: RunId,
    /// The session that stores the run: an earlier one, if a fork inherited the turn.
    pub(crate) session_id: SessionId,
    /// The id of the user message.
    pub(crate) message_id: String,
    /// The content of the user message; none if it is not in the history.
    pub(crate) input: Option<Content>,
    /// The events of the run.
    pub(crate) events: Vec<Frame>,
    /// True if the run is queued or active and does not wait for the client.
    pub(crate) is_live: bool,
}

/// Lists the newest turns of a session, oldest first, as of one moment.
pub(crate) async fn list_turns(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    limit: i64,
) -> Result<Vec<ConversationTurn>, Error> {
    let read = service.pool.with(tenant, async |conn| {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let mut snapshot = conn.begin_with(begin).await?;
        let turns = read_turns(&mut snapshot, tenant, session_id, limit).await?;
        snapshot.commit().await?;
        Ok::<_, Error>(turns)
    });
    read.await
}

async fn read_turns(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    limit: i64,
) -> Result<Vec<ConversationTurn>, Error> {
    let turns = list(conn, session_id, limit).await?;
    let mut events = list_turn_events(conn, &turns).await?;
    let ids: Vec<String> = turns.iter().map(|turn| turn.message_id.clone()).collect();
    let mut inputs: HashMap<String, Content> = list_inputs(conn, session_id, &ids).await?;
    let status = Some(RunStatus::RequiresAction);
    let filter = RunFilter { tenant, session_id, only: None, status, slice: Slice::first(1) };
    let waiting = list_runs(conn, filter).await?.pop().filter(Run::is_idle);
    let waiting = waiting.map(|run| run.id);
    let turn = |turn: Turn| ConversationTurn {
        run_id: turn.run_id,
        session_id: turn.stored_in,
        input: inputs.remove(&turn.message_id),
        events: events.remove(&turn.run_id).unwrap_or_default(),
        // An inherited turn may belong to a run that is still active in the source.
        is_live: turn.stored_in == session_id
            && !turn.status.is_terminal()
            && waiting != Some(turn.run_id),
        message_id: turn.message_id,
    };
    Ok(turns.into_iter().map(turn).collect())
}
