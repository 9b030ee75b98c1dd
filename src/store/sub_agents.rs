//! Sub-agents: their sessions and runs, and the outcomes of these.

use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;
use uuid::Uuid;

use super::accept::{Accepted, NewRun, accept};
use super::runs::Cancellation;
use super::stopping::request_stop;
use super::{StoreError, unreadable};
use crate::domain::call_end::RunEnd;
use crate::domain::event::{EventBody, Frame, NewEvent, THREAD_EVENT};
use crate::domain::ids::{EventId, MessageId, RunId, SessionId, TenantId};
use crate::domain::message::Content;
use crate::domain::outcome::Outcome;
use crate::domain::run_options::RunOptions;
use crate::domain::run_status::RunStatus;
use crate::domain::session::Settings;
use crate::domain::storable::storable_text;
use crate::domain::sub_agent::{Parent, StartedSubAgent, SubAgentSummary};
use crate::domain::usage::Spending;

/// Maximum number of sub-agents that are listed for one run.
const MAX_LISTED: i64 = 1000;

/// The rows of a sub-agent to be started.
#[derive(Debug)]
pub struct SubAgentRow {
    /// The parent, and the session and run of the sub-agent.
    pub sub_agent: StartedSubAgent,
    /// A short description of its task.
    pub title: String,
    /// The settings that are pinned for it.
    pub settings: Settings,
    /// Its task: the user message of its run.
    pub prompt: String,
    /// The options of its run.
    pub options: RunOptions,
}

/// Inserts the session and the run of a sub-agent, in the transaction of its parent's step. The
/// sub-agent works in its parent's folder, with the permissions that its parent has now.
pub(super) async fn insert(
    conn: &mut PgConnection,
    parent: (SessionId, RunId),
    new: &SubAgentRow,
) -> Result<(), StoreError> {
    let settings =
        serde_json::to_string(&new.settings).map_err(unreadable("sessions", "settings"))?;
    let (title, tool_use_id) =
        (storable_text(&new.title), storable_text(&new.sub_agent.tool_use_id));
    let tenant = sqlx::query_scalar!(
        "INSERT INTO sessions (id, tenant_id, title, model, settings, workspace, permission_mode,
                               remembered, parent_session_id, parent_run_id, parent_tool_use_id)
         SELECT $1, p.tenant_id, $3, $4, ($5::text)::json, p.workspace, p.permission_mode,
                p.remembered, p.id, $6, $7
         FROM sessions p WHERE p.id = $2
         RETURNING tenant_id",
        new.sub_agent.session_id.as_uuid(),
        parent.0.as_uuid(),
        title.as_ref(),
        new.settings.model,
        settings,
        parent.1.as_uuid(),
        tool_use_id.as_ref(),
    )
    .fetch_one(&mut *conn)
    .await?;
    let content =
        Content::text(&storable_text(&new.prompt)).map_err(unreadable("runs", "input"))?;
    let message_id = MessageId::new().to_string();
    let body = EventBody::UserMessage {
        content: content.clone(),
        message_id: Some(message_id.clone()),
        retry_of: None,
    };
    let event = NewEvent::with_id(message_id.clone(), &body);
    let run = NewRun {
        id: new.sub_agent.run_id,
        tenant: tenant.into(),
        session_id: new.sub_agent.session_id,
        message_id: &message_id,
        input: content.as_str(),
        options: &new.options,
        idempotency_key: None,
        client_message_id: None,
        fingerprint: &Sha256::digest(content.as_str()),
        event: &event,
        request_event: EventId::new(),
        worker: None,
        may_wait: true,
        versions: None,
    };
    match accept(conn, &run).await? {
        Accepted::Run(_) => Ok(()),
        // A new session accepts its first message.
        Accepted::Refused | Accepted::Repeated => Err(sqlx::Error::RowNotFound.into()),
    }
}

/// The state of a sub-agent.
#[derive(Debug)]
pub struct SubAgentRun {
    /// The status of its run.
    pub status: RunStatus,
    /// The outcome of its run, once settled.
    pub outcome: Option<Outcome>,
    /// Usage and cost.
    pub spent: Spending,
    /// Time in ms from its creation to its end, or to now.
    pub duration_ms: i64,
}

/// Reads the state of a sub-agent. Returns `None` if its session was deleted.
pub async fn find(
    conn: &mut PgConnection,
    run_id: RunId,
) -> Result<Option<SubAgentRun>, StoreError> {
    let row = query_with_usage!(
        _,
        r#"SELECT status, outcome::text, model_requests::bigint AS "requests!",
                  (1000 * extract(epoch FROM coalesce(finished_at, now()) - created_at))::bigint
                      AS "duration_ms!", "#
            + USAGE
            + " FROM runs WHERE id = $1",
        run_id.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let outcome = row.outcome.as_deref().map(serde_json::from_str).transpose();
    let usage = usage_of!(row);
    Ok(Some(SubAgentRun {
        status: status(&row.status)?,
        outcome: outcome.map_err(unreadable("runs", "outcome"))?,
        spent: Spending { requests: row.requests, usage, cost: row.cost },
        duration_ms: row.duration_ms,
    }))
}

fn status(word: &str) -> Result<RunStatus, StoreError> {
    RunStatus::parse(word).ok_or_else(|| unreadable("runs", "status")(word))
}

/// Returns the session of a run, or `None` if it was deleted.
pub async fn session_of(
    conn: &mut PgConnection,
    run_id: RunId,
) -> Result<Option<SessionId>, StoreError> {
    let id = sqlx::query_scalar!("SELECT session_id FROM runs WHERE id = $1", run_id.as_uuid());
    Ok(id.fetch_optional(conn).await?.map(Into::into))
}

/// Returns the number of the last event of a sub-agent's session that its parent has relayed, or 0.
pub async fn last_relayed(
    conn: &mut PgConnection,
    parent: (SessionId, RunId),
    sub_agent: SessionId,
) -> Result<i64, StoreError> {
    // Newest first: a waiting parent writes no other events.
    let seq = sqlx::query_scalar!(
        "SELECT (body #>> '{event,seq}')::bigint FROM events
         WHERE session_id = $1 AND type = $3 AND body ->> 'session_thread_id' = $4
           AND seq > (SELECT accepted_seq FROM runs WHERE id = $2)
         ORDER BY seq DESC LIMIT 1",
        parent.0.as_uuid(),
        parent.1.as_uuid(),
        THREAD_EVENT,
        sub_agent.to_string(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(seq.flatten().unwrap_or(0))
}

/// Returns the usage of the sub-agents of a run whose calls have ended.
pub async fn usage_of_ended(
    conn: &mut PgConnection,
    run_id: RunId,
) -> Result<Spending, StoreError> {
    let row = query_with_usage!(
        _,
        r#"SELECT coalesce(sum(r.model_requests), 0)::bigint AS "requests!", "#
            + SUMS
            + " FROM tool_calls c JOIN runs r ON r.id = c.child_run_id
                WHERE c.run_id = $1 AND c.state <> 'started'",
        run_id.as_uuid(),
    )
    .fetch_one(conn)
    .await?;
    Ok(Spending { requests: row.requests, usage: usage_of!(row), cost: row.cost })
}

/// Lists the sub-agents of a run, in the order of their calls.
pub(super) async fn list(
    conn: &mut PgConnection,
    run_id: RunId,
) -> Result<Vec<SubAgentSummary>, StoreError> {
    let rows = query_with_usage!(
        _,
        "SELECT c.tool_use_id, r.session_id, r.id, r.status, "
            + USAGE
            + " FROM tool_calls c JOIN runs r ON r.id = c.child_run_id
                WHERE c.run_id = $1 ORDER BY c.message_seq, c.position LIMIT $2",
        run_id.as_uuid(),
        MAX_LISTED,
    )
    .fetch_all(conn)
    .await?;
    let started = rows.into_iter().map(|row| {
        Ok(SubAgentSummary {
            usage: usage_of!(row),
            tool_use_id: row.tool_use_id,
            session_id: row.session_id.into(),
            run_id: row.id.into(),
            status: status(&row.status)?,
            cost: row.cost,
        })
    });
    started.collect()
}

/// Returns the parent call of a sub-agent's session, from the columns of its row.
pub(super) fn parent(
    session_id: Option<Uuid>,
    run_id: Option<Uuid>,
    tool_use_id: Option<String>,
) -> Option<Parent> {
    let ((session_id, run_id), tool_use_id) = session_id.zip(run_id).zip(tool_use_id)?;
    Some(Parent { session_id: session_id.into(), run_id: run_id.into(), tool_use_id })
}

/// A run whose cancellation was requested. Publish its events after the commit.
#[derive(Debug)]
pub struct StoppedSubAgent {
    /// The session.
    pub session_id: SessionId,
    /// The run.
    pub run_id: RunId,
    /// The state of the run at the request.
    pub cancellation: Cancellation,
    /// Its events.
    pub frames: Vec<Frame>,
}

/// Requests the cancellation of a sub-agent's run, in the caller's transaction. Returns `None` if
/// the run was deleted.
pub async fn stop(
    conn: &mut PgConnection,
    run_id: RunId,
) -> Result<Option<StoppedSubAgent>, StoreError> {
    let row =
        sqlx::query!("SELECT session_id, tenant_id FROM runs WHERE id = $1", run_id.as_uuid())
            .fetch_optional(&mut *conn)
            .await?;
    let Some(row) = row else { return Ok(None) };
    let (session_id, tenant): (SessionId, TenantId) = (row.session_id.into(), row.tenant_id.into());
    let (cancellation, frames) =
        request_stop(conn, tenant, session_id, run_id, RunEnd::Parent).await?;
    Ok(cancellation.map(|cancellation| StoppedSubAgent {
        session_id,
        run_id,
        cancellation,
        frames,
    }))
}
