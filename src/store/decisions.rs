//! What people and clients say of calls that wait: decisions and results. The caller's
//! transaction holds the session first and then the run, as everywhere, so that no worker takes
//! the run up or writes to it in between.

use jiff_sqlx::Timestamp;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;

use super::{StoreError, unreadable};
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::message::{Content, View};
use crate::domain::pending::PendingCall;
use crate::domain::permission::{Awaits, Decision, Rule};
use crate::domain::tool::CallState;
use crate::domain::tool_error::ToolErrorType;

/// Rules that a session remembers at most.
const MAX_REMEMBERED: usize = 200;

/// A call as it stands, which nobody else changes for the rest of the transaction.
#[derive(Debug)]
pub struct LockedCall {
    /// The session.
    pub session_id: SessionId,
    /// The run.
    pub run_id: RunId,
    /// Whether the run is live and has not been asked to stop.
    pub is_wanted: bool,
    /// The message that asks for the call.
    pub message_seq: i32,
    /// The model's own id of the call.
    pub tool_use_id: String,
    /// The tool's name.
    pub name: String,
    /// Where it stands.
    pub state: CallState,
    /// Who must act, or had to.
    pub awaits: Option<Awaits>,
    /// What was decided.
    pub decision: Option<Decision>,
    /// Why it was denied.
    pub decision_message: Option<String>,
    /// What runs in place of the model's input.
    pub input: Option<String>,
    /// What the model reads, once the call has ended.
    pub result: Option<String>,
    /// Blocks of a result that is more than a text.
    pub content: Option<String>,
    /// Whether the time for an answer was over before there was one.
    pub is_overdue: bool,
}

impl LockedCall {
    /// Whether nobody is asked, and somebody may be as long as the run lives.
    pub fn may_wait_yet(&self) -> bool {
        self.is_wanted && self.state == CallState::Planned && self.awaits.is_none()
    }

    /// Whether somebody may still answer.
    pub fn is_open(&self) -> bool {
        self.is_wanted
            && self.state == CallState::Planned
            && self.decision.is_none()
            && !self.is_overdue
    }
}

/// Locks a session and its live run, and reads the newest calls of these ids; none if the tenant
/// has no such session. What is not there is left out.
pub async fn lock_calls(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    tool_use_ids: &[String],
) -> Result<Option<Vec<LockedCall>>, StoreError> {
    // Statements of their own: each sees what was done while the one before waited.
    let session = sqlx::query_scalar!(
        "SELECT id FROM sessions WHERE id = $1 AND tenant_id = $2 FOR NO KEY UPDATE",
        session_id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(&mut *conn)
    .await?;
    if session.is_none() {
        return Ok(None);
    }
    sqlx::query!(
        "SELECT id FROM runs
         WHERE session_id = $1 AND status IN ('running', 'requires_action') FOR UPDATE",
        session_id.as_uuid(),
    )
    .fetch_optional(&mut *conn)
    .await?;
    // The clock's time: the transaction may have waited long for its locks.
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

/// What is decided on a call.
#[derive(Debug)]
pub struct NewDecision<'a> {
    /// Whether it may run.
    pub decision: Decision,
    /// Why not.
    pub message: Option<&'a str>,
    /// What runs in place of the model's input.
    pub input: Option<&'a RawValue>,
}

/// Records what was decided on a call that is open.
pub async fn decide(
    conn: &mut PgConnection,
    call: &LockedCall,
    new: &NewDecision<'_>,
) -> Result<(), StoreError> {
    let input = new.input.map(RawValue::get);
    let hash = input.map(|input| Sha256::digest(input.as_bytes()).to_vec());
    sqlx::query!(
        "UPDATE tool_calls SET decision = $4, decision_message = $5, decided_at = clock_timestamp(),
                input = ($6::text)::json, input_hash = coalesce($7, input_hash)
         WHERE session_id = $1 AND message_seq = $2 AND tool_use_id = $3",
        call.session_id.as_uuid(),
        call.message_seq,
        call.tool_use_id,
        new.decision.as_str(),
        new.message,
        input,
        hash,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The result of a call that the client ran.
#[derive(Debug)]
pub struct NewResult<'a> {
    /// What the model reads, as a text.
    pub text: &'a str,
    /// What it reads in its place, if that is more than a text: a JSON array of blocks.
    pub content: Option<&'a str>,
    /// Whether the call failed.
    pub is_error: bool,
}

impl NewResult<'_> {
    /// Where a call with this result stands.
    pub const fn state(&self) -> CallState {
        if self.is_error { CallState::Failed } else { CallState::Done }
    }
}

/// Records the result of a call that is open.
pub async fn finish(
    conn: &mut PgConnection,
    call: &LockedCall,
    new: &NewResult<'_>,
) -> Result<(), StoreError> {
    let error_type = new.is_error.then(|| ToolErrorType::of_text(new.text)).flatten();
    sqlx::query!(
        "UPDATE tool_calls SET state = $4, result = $5, content = ($6::text)::json,
                error_type = $7, finished_at = clock_timestamp()
         WHERE session_id = $1 AND message_seq = $2 AND tool_use_id = $3",
        call.session_id.as_uuid(),
        call.message_seq,
        call.tool_use_id,
        new.state().as_str(),
        new.text,
        new.content,
        error_type.map(ToolErrorType::as_str),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Says when the run of a call goes on: now, if no call of its round waits for anybody any more,
/// or else at the first deadline of those that do. Whether it goes on now. A run that a worker
/// holds is told by the ledger.
pub async fn plan_wake(conn: &mut PgConnection, call: &LockedCall) -> Result<bool, StoreError> {
    let goes_on = sqlx::query_scalar!(
        r#"UPDATE runs SET wake_at = coalesce(
               (SELECT min(c.answer_by) FROM tool_calls c
                WHERE c.session_id = $2 AND c.message_seq = $3 AND c.state = 'planned'
                  AND c.awaits IS NOT NULL AND c.decision IS NULL),
               now())
           WHERE id = $1 AND status = 'requires_action'
           RETURNING wake_at <= now() AS "goes_on!""#,
        call.run_id.as_uuid(),
        call.session_id.as_uuid(),
        call.message_seq,
    )
    .fetch_optional(conn)
    .await?;
    Ok(goes_on.unwrap_or(false))
}

/// The rules that people have made for a session while they decided.
pub async fn list_remembered(
    conn: &mut PgConnection,
    session_id: SessionId,
) -> Result<Vec<Rule>, StoreError> {
    let remembered = sqlx::query_scalar!(
        r#"SELECT remembered::text AS "remembered!" FROM sessions WHERE id = $1"#,
        session_id.as_uuid(),
    )
    .fetch_one(conn)
    .await?;
    serde_json::from_str(&remembered).map_err(unreadable("sessions", "remembered"))
}

/// Adds a rule to those of a session that is locked. Says whether there was room for it.
pub async fn remember(
    conn: &mut PgConnection,
    session_id: SessionId,
    rule: Rule,
) -> Result<bool, StoreError> {
    let mut rules = list_remembered(conn, session_id).await?;
    if rules.contains(&rule) {
        return Ok(true);
    }
    if rules.len() >= MAX_REMEMBERED {
        return Ok(false);
    }
    rules.push(rule);
    let rules = serde_json::to_string(&rules).map_err(unreadable("sessions", "remembered"))?;
    sqlx::query!(
        "UPDATE sessions SET remembered = ($2::text)::json WHERE id = $1",
        session_id.as_uuid(),
        rules,
    )
    .execute(conn)
    .await?;
    Ok(true)
}

/// The calls of a session that wait for somebody, in the order of the calls.
pub async fn list_pending(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
) -> Result<Vec<PendingCall>, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT c.message_seq, c.tool_use_id, c.name, c.awaits AS "awaits!",
                  c.wait_reason, c.diff,
                  c.answer_by AS "answer_by!: Timestamp"
           FROM runs r JOIN tool_calls c ON c.session_id = r.session_id AND c.run_id = r.id
           WHERE r.session_id = $1 AND r.tenant_id = $2 AND r.status = 'requires_action'
             AND c.state = 'planned' AND c.awaits IS NOT NULL AND c.decision IS NULL
           ORDER BY c.message_seq, c.position"#,
        session_id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_all(&mut *conn)
    .await?;
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    // A run waits for the calls of its last message only.
    let content = sqlx::query_scalar!(
        r#"SELECT content::text AS "content!" FROM messages WHERE session_id = $1 AND seq = $2"#,
        session_id.as_uuid(),
        first.message_seq,
    )
    .fetch_one(conn)
    .await?;
    let content = parse(content)?;
    let mut pending = Vec::new();
    for row in rows {
        let awaits = Awaits::parse(&row.awaits)
            .ok_or_else(|| unreadable("tool_calls", "awaits")(&row.awaits))?;
        let Some(input) = input_of(&content, &row.tool_use_id)? else { continue };
        pending.push(PendingCall {
            tool_use_id: row.tool_use_id,
            name: row.name,
            input,
            awaits,
            answer_by: row.answer_by.to_jiff(),
            reason: row.wait_reason,
            diff: row.diff,
        });
    }
    Ok(pending)
}
