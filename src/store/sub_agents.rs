//! Sub-agents: the sessions of their own in which they work, and what became of them.

use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;
use uuid::Uuid;

use super::accept::{Accepted, NewRun, accept};
use super::runs::Cancellation;
use super::stopping::request_stop;
use super::{StoreError, unreadable};
use crate::domain::event::{EventBody, Frame, NewEvent, THREAD_EVENT};
use crate::domain::ids::{MessageId, RunId, SessionId, TenantId};
use crate::domain::message::Content;
use crate::domain::run::{Outcome, RunOptions, RunStatus};
use crate::domain::session::Settings;
use crate::domain::sub_agent::{Child, Parent, StartedAgent};
use crate::domain::usage::Spent;

/// Sub-agents of one run that are told of at most.
const MOST: i64 = 1000;

/// A sub-agent to be started.
#[derive(Debug)]
pub struct NewChild {
    /// Whose it is, and which session and run it gets.
    pub child: Child,
    /// What it is to do, in a few words.
    pub title: String,
    /// What is pinned for it.
    pub settings: Settings,
    /// What it is told.
    pub prompt: String,
    /// What its message asks of its run.
    pub options: RunOptions,
}

/// Makes the session of a sub-agent, with its run, in the transaction of its parent's step. It works
/// in its parent's folder, under the permissions that hold there now.
pub(super) async fn insert(
    conn: &mut PgConnection,
    parent: (SessionId, RunId),
    new: &NewChild,
) -> Result<(), StoreError> {
    let settings =
        serde_json::to_string(&new.settings).map_err(unreadable("sessions", "settings"))?;
    let tenant = sqlx::query_scalar!(
        "INSERT INTO sessions (id, tenant_id, title, model, settings, workspace, permission_mode,
                               remembered, parent_session_id, parent_run_id, parent_tool_use_id)
         SELECT $1, p.tenant_id, $3, $4, ($5::text)::json, p.workspace, p.permission_mode,
                p.remembered, p.id, $6, $7
         FROM sessions p WHERE p.id = $2
         RETURNING tenant_id",
        new.child.session_id.as_uuid(),
        parent.0.as_uuid(),
        new.title,
        new.settings.model,
        settings,
        parent.1.as_uuid(),
        new.child.tool_use_id,
    )
    .fetch_one(&mut *conn)
    .await?;
    let content = Content::text(&new.prompt).map_err(unreadable("runs", "input"))?;
    let message_id = MessageId::new().to_string();
    let body = EventBody::UserMessage { content: content.clone() };
    let event = NewEvent::with_id(message_id.clone(), &body);
    let run = NewRun {
        id: new.child.run_id,
        tenant: tenant.into(),
        session_id: new.child.session_id,
        message_id: &message_id,
        input: content.as_str(),
        options: &new.options,
        idempotency_key: None,
        client_message_id: None,
        fingerprint: &Sha256::digest(content.as_str()),
        event: &event,
        worker: None,
        may_wait: true,
        versions: None,
    };
    match accept(conn, &run).await? {
        Accepted::Run(_) => Ok(()),
        // A session that was made a moment ago takes its first message.
        Accepted::Refused | Accepted::Repeated => Err(sqlx::Error::RowNotFound.into()),
    }
}

/// Where a sub-agent stands.
#[derive(Debug)]
pub struct ChildRun {
    /// Where its run stands.
    pub status: RunStatus,
    /// What it left, once it has settled.
    pub outcome: Option<Outcome>,
    /// What it used.
    pub spent: Spent,
    /// The time from its beginning to its end, or to now.
    pub duration_ms: i64,
}

/// Looks where a sub-agent stands; none if its session was deleted.
pub async fn find(conn: &mut PgConnection, run_id: RunId) -> Result<Option<ChildRun>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT status, outcome::text, model_requests::bigint AS "requests!", input_tokens,
                  cache_creation_input_tokens, cache_read_input_tokens, output_tokens,
                  cache_creation_1h_input_tokens, thinking_tokens, web_search_requests,
                  web_fetch_requests, cost,
                  (1000 * extract(epoch FROM coalesce(finished_at, now()) - created_at))::bigint
                      AS "duration_ms!"
           FROM runs WHERE id = $1"#,
        run_id.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let outcome = row.outcome.as_deref().map(serde_json::from_str).transpose();
    let usage = usage_of!(row);
    Ok(Some(ChildRun {
        status: status(&row.status)?,
        outcome: outcome.map_err(unreadable("runs", "outcome"))?,
        spent: Spent { requests: row.requests, usage, cost: row.cost },
        duration_ms: row.duration_ms,
    }))
}

fn status(word: &str) -> Result<RunStatus, StoreError> {
    RunStatus::parse(word).ok_or_else(|| unreadable("runs", "status")(word))
}

/// The session of a run; none if it was deleted.
pub async fn session_of(
    conn: &mut PgConnection,
    run_id: RunId,
) -> Result<Option<SessionId>, StoreError> {
    let id = sqlx::query_scalar!("SELECT session_id FROM runs WHERE id = $1", run_id.as_uuid());
    Ok(id.fetch_optional(conn).await?.map(Into::into))
}

/// The number of the last event of a sub-agent's session that its parent has told of; 0 if it has
/// told of none.
pub async fn last_told(
    conn: &mut PgConnection,
    parent: (SessionId, RunId),
    child: SessionId,
) -> Result<i64, StoreError> {
    // From the newest back: a parent that waits tells of nothing else.
    let seq = sqlx::query_scalar!(
        "SELECT (body #>> '{event,seq}')::bigint FROM events
         WHERE session_id = $1 AND type = $3 AND body ->> 'session_thread_id' = $4
           AND seq > (SELECT accepted_seq FROM runs WHERE id = $2)
         ORDER BY seq DESC LIMIT 1",
        parent.0.as_uuid(),
        parent.1.as_uuid(),
        THREAD_EVENT,
        child.to_string(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(seq.flatten().unwrap_or(0))
}

/// What those sub-agents of a run used whose calls have ended.
pub async fn used_by_ended(conn: &mut PgConnection, run_id: RunId) -> Result<Spent, StoreError> {
    let row = sqlx::query!(
        r#"SELECT coalesce(sum(r.model_requests), 0)::bigint AS "requests!",
                  coalesce(sum(r.input_tokens), 0)::bigint AS "input_tokens!",
                  coalesce(sum(r.cache_creation_input_tokens), 0)::bigint
                      AS "cache_creation_input_tokens!",
                  coalesce(sum(r.cache_read_input_tokens), 0)::bigint
                      AS "cache_read_input_tokens!",
                  coalesce(sum(r.output_tokens), 0)::bigint AS "output_tokens!",
                  coalesce(sum(r.cache_creation_1h_input_tokens), 0)::bigint
                      AS "cache_creation_1h_input_tokens!",
                  coalesce(sum(r.thinking_tokens), 0)::bigint AS "thinking_tokens!",
                  coalesce(sum(r.web_search_requests), 0)::bigint AS "web_search_requests!",
                  coalesce(sum(r.web_fetch_requests), 0)::bigint AS "web_fetch_requests!",
                  sum(r.cost)::bigint AS cost
           FROM tool_calls c JOIN runs r ON r.id = c.child_run_id
           WHERE c.run_id = $1 AND c.state <> 'started'"#,
        run_id.as_uuid(),
    )
    .fetch_one(conn)
    .await?;
    Ok(Spent { requests: row.requests, usage: usage_of!(row), cost: row.cost })
}

/// The sub-agents that a run has started, in the order of their calls.
pub(super) async fn list(
    conn: &mut PgConnection,
    run_id: RunId,
) -> Result<Vec<StartedAgent>, StoreError> {
    let rows = sqlx::query!(
        "SELECT c.tool_use_id, r.session_id, r.id, r.status, r.input_tokens,
                r.cache_creation_input_tokens, r.cache_read_input_tokens, r.output_tokens,
                r.cache_creation_1h_input_tokens, r.thinking_tokens, r.web_search_requests,
                r.web_fetch_requests, r.cost
         FROM tool_calls c JOIN runs r ON r.id = c.child_run_id
         WHERE c.run_id = $1 ORDER BY c.message_seq, c.position LIMIT $2",
        run_id.as_uuid(),
        MOST,
    )
    .fetch_all(conn)
    .await?;
    let started = rows.into_iter().map(|row| {
        Ok(StartedAgent {
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

/// The call whose sub-agent works in a session, of the columns of its row.
pub(super) fn parent(
    session_id: Option<Uuid>,
    run_id: Option<Uuid>,
    tool_use_id: Option<String>,
) -> Option<Parent> {
    let ((session_id, run_id), tool_use_id) = session_id.zip(run_id).zip(tool_use_id)?;
    Some(Parent { session_id: session_id.into(), run_id: run_id.into(), tool_use_id })
}

/// Runs that were asked to stop, to be told of after the commit.
#[derive(Debug)]
pub struct StoppedChild {
    /// The session.
    pub session_id: SessionId,
    /// The run.
    pub run_id: RunId,
    /// How it met the request.
    pub met: Cancellation,
    /// Its events.
    pub frames: Vec<Frame>,
}

/// Asks the run of a sub-agent to stop, in the caller's transaction; none if it was deleted.
pub async fn stop(
    conn: &mut PgConnection,
    run_id: RunId,
) -> Result<Option<StoppedChild>, StoreError> {
    let row =
        sqlx::query!("SELECT session_id, tenant_id FROM runs WHERE id = $1", run_id.as_uuid())
            .fetch_optional(&mut *conn)
            .await?;
    let Some(row) = row else { return Ok(None) };
    let (session_id, tenant): (SessionId, TenantId) = (row.session_id.into(), row.tenant_id.into());
    let (met, frames) = request_stop(conn, tenant, session_id, run_id).await?;
    Ok(met.map(|met| StoppedChild { session_id, run_id, met, frames }))
}
