//! Answers of users and clients to waiting calls: decisions and results. The caller's transaction
//! locks the session first and then the run, as everywhere, so that no worker claims the run or
//! writes to it in between.

mod answer;
mod pending;
mod remembered_rules;
mod reported_wait;

use serde_json::value::RawValue;
use sqlx::PgConnection;

use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::message::{Content, View};
use crate::domain::permission::{Awaits, Decision};
use crate::domain::tool::CallState;
use crate::store::{StoreError, unreadable};
pub use answer::{NewDecision, NewResult, decide, finish, plan_wake};
pub use pending::list_pending;
pub use remembered_rules::{list_remembered, remember};
pub use reported_wait::report_wait;

/// A call that is locked for the rest of the transaction.
#[derive(Debug)]
pub struct LockedCall {
    /// The session.
    pub session_id: SessionId,
    /// The run.
    pub run_id: RunId,
    /// True if the run is live and its cancellation was not requested.
    pub is_wanted: bool,
    /// The message that contains the call.
    pub message_seq: i32,
    /// The model's ID of the call.
    pub tool_use_id: String,
    /// The tool's name.
    pub name: String,
    /// The state.
    pub state: CallState,
    /// The party whose answer the call awaits or awaited.
    pub awaits: Option<Awaits>,
    /// The decision.
    pub decision: Option<Decision>,
    /// The reason of a denial.
    pub decision_message: Option<String>,
    /// The input that replaces the model's.
    pub input: Option<String>,
    /// The result as the model reads it, once the call has ended.
    pub result: Option<String>,
    /// Content blocks of a result that is more than a text.
    pub content: Option<String>,
    /// True if the deadline passed without an answer.
    pub is_overdue: bool,
}

impl LockedCall {
    /// Returns true if the call awaits no answer yet and may come to await one while the run is
    /// live.
    pub fn may_still_wait(&self) -> bool {
        self.is_wanted && self.state == CallState::Planned && self.awaits.is_none()
    }

    /// Returns true if an answer is still accepted.
    pub fn is_open(&self) -> bool {
        self.is_wanted
            && self.state == CallState::Planned
            && self.decision.is_none()
            && !self.is_overdue
    }
}

/// Locks a session and its active run, and reads the newest calls with these IDs. IDs without a call
/// are left out. Returns `None` if the tenant does not have the session.
pub async fn lock_calls(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    tool_use_ids: &[String],
) -> Result<Option<Vec<LockedCall>>, StoreError> {
    if !lock_session(conn, tenant, session_id).await? {
        return Ok(None);
    }
    // `clock_timestamp`, because the transaction may have waited long for its locks.
    let rows = sqlx::query!(
        r#"SELECT DISTINCT ON (c.tool_use_id) c.tool_use_id, c.run_id, c.message_seq, c.name,
                  c.state, c.awaits, c.decision, c.decision_message, c.input::text, c.result,
                  c.content::text,
                  coalesce(coalesce(c.decided_at, c.finished_at, clock_timestamp()) >= c.answer_by,
                           false) AS "is_overdue!",
                  r.status IN ('running', 'requires_action') AND r.cancel_requested_at IS NULL
                      AS "is_wanted!"
           FROM tool_calls c JOIN runs r ON r.id = c.run_id
           WHERE c.session_id = $1 AND c.tool_use_id = ANY($2)
           ORDER BY c.tool_use_id, c.message_seq DESC"#,
        session_id.as_uuid(),
        tool_use_ids,
    )
    .fetch_all(conn)
    .await?;
    let calls = rows.into_iter().map(|row| {
        let state = CallState::parse(&row.state)
            .ok_or_else(|| unreadable("tool_calls", "state")(&row.state))?;
        Ok(LockedCall {
            session_id,
            run_id: row.run_id.into(),
            is_wanted: row.is_wanted,
            message_seq: row.message_seq,
            tool_use_id: row.tool_use_id,
            name: row.name,
            state,
            awaits: row.awaits.as_deref().and_then(Awaits::parse),
            decision: row.decision.as_deref().and_then(Decision::parse),
            decision_message: row.decision_message,
            input: row.input,
            result: row.result,
            content: row.content,
            is_overdue: row.is_overdue,
        })
    });
    calls.collect::<Result<Vec<_>, StoreError>>().map(Some)
}

/// Locks a session, then its active run. Returns false if the tenant does not have the session.
async fn lock_session(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
) -> Result<bool, StoreError> {
    // Separate statements: each one sees what was committed while the previous one waited for its
    // lock.
    let session = sqlx::query_scalar!(
        "SELECT id FROM sessions WHERE id = $1 AND tenant_id = $2 FOR NO KEY UPDATE",
        session_id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(&mut *conn)
    .await?;
    if session.is_none() {
        return Ok(false);
    }
    sqlx::query!(
        "SELECT id FROM runs
         WHERE session_id = $1 AND status IN ('running', 'requires_action') FOR UPDATE",
        session_id.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(true)
}

/// The input of a call as the model wrote it.
pub async fn find_input(
    conn: &mut PgConnection,
    call: &LockedCall,
) -> Result<Option<Box<RawValue>>, StoreError> {
    let content = sqlx::query_scalar!(
        r#"SELECT content::text AS "content!" FROM messages WHERE session_id = $1 AND seq = $2"#,
        call.session_id.as_uuid(),
        call.message_seq,
    )
    .fetch_optional(conn)
    .await?;
    let Some(content) = content else { return Ok(None) };
    input_of(&parse(content)?, &call.tool_use_id)
}

fn parse(content: String) -> Result<Content, StoreError> {
    Content::parse(content).map_err(unreadable("messages", "content"))
}

fn input_of(content: &Content, id: &str) -> Result<Option<Box<RawValue>>, StoreError> {
    let blocks = content.blocks().map_err(unreadable("messages", "content"))?;
    Ok(blocks.iter().find_map(|block| match &block.view {
        View::ToolUse(call) if call.id == id => Some(call.input.to_owned()),
        View::ToolUse(_)
        | View::Text(_)
        | View::Thinking(_)
        | View::RedactedThinking
        | View::ToolResult { .. }
        | View::ServerToolUse { .. }
        | View::Other { .. } => None,
    }))
}
