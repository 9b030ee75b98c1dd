//! Reading the rows of a session as a stream: only a small extract of each row is kept.

use std::collections::HashMap;

use futures::TryStreamExt as _;
use jiff_sqlx::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use sqlx::PgConnection;

use super::body::Body;
use super::facts::{CallFacts, EventFacts, Facts, MessageFacts, RunFacts, SessionFacts};
use super::parts::{Parts, Results, hash, hash_of_line, history_agrees};
use super::requests;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::media::with_placeholders;
use crate::domain::message::{Content, Role};
use crate::domain::model_settings::ModelSettings;
use crate::domain::outcome::Outcome;
use crate::domain::permission::{Awaits, Rule};
use crate::domain::run_options::RunOptions;
use crate::domain::run_status::RunStatus;
use crate::domain::session::Settings;
use crate::domain::stop_reason::{ModelStop, StopReason};
use crate::domain::tool::CallState;
use crate::domain::usage::Usage;
use crate::store::StoreError;

/// The types of events that belong to a session and not to one of its runs.
/// The results are those with which a fork begins.
const OF_SESSIONS: [&str; 4] =
    ["session.forked", "session.updated", "agent.tool_result", "user.feedback"];

/// Records an unreadable value instead of failing.
fn try_read<'a, T: Deserialize<'a>>(
    column: &str,
    text: Option<&'a str>,
    unreadable: &mut Vec<String>,
) {
    if let Some(Err(error)) = text.map(serde_json::from_str::<T>) {
        unreadable.push(format!("unreadable {column}: {error}"));
    }
}

/// The extract of a message that its event must contain.
fn announced(input: &str) -> String {
    let content = Content::parse(input.to_owned()).and_then(|content| with_placeholders(&content));
    content.map_or_else(|_| input.to_owned(), |content| content.as_str().to_owned())
}

pub(super) async fn facts(
    conn: &mut PgConnection,
    tenant: Option<TenantId>,
    id: SessionId,
) -> Result<Option<Facts>, StoreError> {
    let Some(SessionRow { session, tenant, now }) = session(conn, tenant, id).await? else {
        return Ok(None);
    };
    let runs = runs(conn, id, tenant).await?;
    let requests = requests::read(conn, id, tenant).await?;
    let messages = messages(conn, id, tenant).await?;
    let calls = calls(conn, id, tenant, &messages).await?;
    let events = events(conn, id, tenant).await?;
    Ok(Some(Facts { now, session, runs: runs.into(), requests, messages, calls, events }))
}

struct SessionRow {
    session: SessionFacts,
    tenant: TenantId,
    now: jiff::Timestamp,
}

async fn session(
    conn: &mut PgConnection,
    tenant: Option<TenantId>,
    id: SessionId,
) -> Result<Option<SessionRow>, StoreError> {
    // now() is the time of BEGIN, before the snapshot: a run that was answered in between would be due
    // in the future, without an open call.
    let row = query_with_usage!(
        _,
        r#"SELECT tenant_id, last_seq, last_message_seq, queued, active_run_id,
                  settings::text AS "settings!", model_settings::text, metadata::text AS "metadata!", stop_reason::text,
                  remembered::text AS "remembered!", clock_timestamp() AS "now!: Timestamp", "#
            + USAGE
            + " FROM sessions WHERE id = $1 AND ($2::uuid IS NULL OR tenant_id = $2)",
        id.as_uuid(),
        tenant.map(TenantId::as_uuid),
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let mut unreadable = Vec::new();
    try_read::<Settings>("settings", Some(&row.settings), &mut unreadable);
    try_read::<ModelSettings>("model_settings", row.model_settings.as_deref(), &mut unreadable);
    try_read::<&RawValue>("metadata", Some(&row.metadata), &mut unreadable);
    try_read::<Vec<Rule>>("remembered", Some(&row.remembered), &mut unreadable);
    try_read::<StopReason>("stop_reason", row.stop_reason.as_deref(), &mut unreadable);
    let session = SessionFacts {
        id,
        last_seq: row.last_seq,
        last_message_seq: row.last_message_seq,
        queued: row.queued,
        active_run_id: row.active_run_id.map(Into::into),
        usage: usage_of!(row),
        cost: row.cost,
        unreadable,
    };
    Ok(Some(SessionRow { session, tenant: row.tenant_id.into(), now: row.now.to_jiff() }))
}

fn status(word: &str, unreadable: &mut Vec<String>) -> Option<RunStatus> {
    let status = RunStatus::parse(word);
    if status.is_none() {
        unreadable.push(format!("unknown status {word}"));
    }
    status
}

async fn runs(
    conn: &mut PgConnection,
    id: SessionId,
    tenant: TenantId,
) -> Result<Vec<RunFacts>, StoreError> {
    let mut rows = query_with_usage!(
        _,
        r#"SELECT id, tenant_id, status, accepted_seq, message_id, input::text AS "input!",
                  options::text AS "options!", attempt, lease_until IS NOT NULL AS "has_lease!",
                  -- A run whose lease was released waits for a worker; that is no finding.
                  CASE WHEN lease_owner IS NOT NULL AND lease_until < now() - interval '1 minute'
                       THEN lease_until END
                      AS "abandoned_at: Timestamp",
                  wake_at AS "wake_at: Timestamp",
                  coalesce(wake_at < now() - interval '1 minute', false) AS "is_forgotten!",
                  outcome::text, finished_at IS NOT NULL AS "has_finished!", model_requests,
                  last_request,
                  EXISTS (SELECT FROM reservations v
                          WHERE v.run_id = runs.id AND v.spent_at IS NULL) AS "has_reservation!", "#
            + USAGE
            + " FROM runs WHERE session_id = $1 ORDER BY accepted_seq, id",
        id.as_uuid(),
    )
    .fetch(conn);
    let mut runs = Vec::new();
    while let Some(row) = rows.try_next().await? {
        let mut unreadable = Vec::new();
        try_read::<RunOptions>("options", Some(&row.options), &mut unreadable);
        try_read::<Outcome>("outcome", row.outcome.as_deref(), &mut unreadable);
        let status = status(&row.status, &mut unreadable);
        runs.push(RunFacts {
            id: row.id.into(),
            has_tenant: row.tenant_id == tenant.as_uuid(),
            status,
            accepted_seq: row.accepted_seq,
            message_id: row.message_id,
            input: hash(&row.input),
            announced: hash_of_line(&announced(&row.input)),
            attempt: row.attempt,
            has_lease: row.has_lease,
            abandoned_at: row.abandoned_at.map(Timestamp::to_jiff),
            wake: row.wake_at.map(|at| (at.to_jiff(), row.is_forgotten)),
            has_outcome: row.outcome.is_some(),
            has_finished: row.has_finished,
            model_requests: row.model_requests,
            usage: usage_of!(row),
            cost: row.cost,
            last_request: row.last_request,
            has_reservation: row.has_reservation,
            unreadable,
        });
    }
    Ok(runs)
}

async fn messages(
    conn: &mut PgConnection,
    id: SessionId,
    tenant: TenantId,
) -> Result<Vec<MessageFacts>, StoreError> {
    let mut rows = sqlx::query!(
        r#"SELECT seq AS "seq!", stored_in <> session_id AS "is_inherited!", run_id AS "run_id!",
                  tenant_id AS "tenant_id!", attempt AS "attempt!", role AS "role!",
                  message_id AS "message_id!", content::text AS "content!", stop_reason, usage::text
           FROM history WHERE session_id = $1 ORDER BY seq"#,
        id.as_uuid(),
    )
    .fetch(conn);
    let mut messages = Vec::new();
    while let Some(row) = rows.try_next().await? {
        let mut unreadable = Vec::new();
        try_read::<Usage>("usage", row.usage.as_deref(), &mut unreadable);
        let hash = hash(&row.content);
        let parts = Content::parse(row.content).and_then(|content| Parts::read(&content));
        let parts = parts.unwrap_or_else(|error| {
            unreadable.push(error.to_string());
            Parts::default()
        });
        messages.push(MessageFacts {
            seq: row.seq,
            is_inherited: row.is_inherited,
            run_id: row.run_id.into(),
            has_tenant: row.tenant_id == tenant.as_uuid(),
            attempt: row.attempt,
            role: if row.role == Role::User.as_str() { Role::User } else { Role::Assistant },
            message_id: row.message_id,
            stop: row.stop_reason.as_deref().map(ModelStop::from),
            hash,
            parts,
            unreadable,
        });
    }
    Ok(messages)
}

async fn calls(
    conn: &mut PgConnection,
    id: SessionId,
    tenant: TenantId,
    messages: &[MessageFacts],
) -> Result<Vec<CallFacts>, StoreError> {
    let mut answers: Results<'_> = HashMap::new();
    for message in messages {
        let of_message = message.parts.results.iter();
        answers.extend(of_message.map(|answer| ((message.seq - 1, answer.id.as_str()), answer)));
    }
    let mut rows = sqlx::query!(
        r#"SELECT message_seq, run_id, tenant_id, tool_use_id, position, name, state, executions,
                  hash_after IS NOT NULL AS "has_evidence!", result, awaits,
                  decision IS NULL AND state = 'planned' AS "is_undecided!", input_hash,
                  input::text, content IS NOT NULL AS "has_blocks!"
           FROM tool_calls WHERE session_id = $1 ORDER BY message_seq, position, tool_use_id"#,
        id.as_uuid(),
    )
    .fetch(conn);
    let mut calls = Vec::new();
    while let Some(row) = rows.try_next().await? {
        let state = CallState::parse(&row.state);
        let agrees = row.result.as_deref().and_then(|result| {
            let is_error = state != Some(CallState::Done);
            history_agrees(&answers, row.message_seq, &row.tool_use_id, (result, is_error))
        });
        calls.push(CallFacts {
            message_seq: row.message_seq,
            run_id: row.run_id.into(),
            has_tenant: row.tenant_id == tenant.as_uuid(),
            tool_use_id: row.tool_use_id,
            position: row.position,
            name: row.name,
            state,
            executions: row.executions,
            has_evidence: row.has_evidence,
            awaits: row
                .awaits
                .as_deref()
                .and_then(Awaits::parse)
                .map(|awaits| (awaits, row.is_undecided)),
            input_hash: row.input_hash,
            input: row.input.as_deref().map(hash),
            result: row.result.as_deref().map(hash),
            has_blocks: row.has_blocks,
            history_agrees: agrees,
        });
    }
    Ok(calls)
}

async fn events(
    conn: &mut PgConnection,
    id: SessionId,
    tenant: TenantId,
) -> Result<Vec<EventFacts>, StoreError> {
    let mut rows = sqlx::query!(
        r#"SELECT seq, run_id, tenant_id, event_id, type AS kind, body::text AS "body!"
           FROM events WHERE session_id = $1 ORDER BY seq"#,
        id.as_uuid(),
    )
    .fetch(conn);
    let mut events = Vec::new();
    while let Some(row) = rows.try_next().await? {
        let body = Body::read(&row.kind, &row.event_id, &row.body);
        events.push(EventFacts {
            seq: row.seq,
            run_id: row.run_id.map(Into::into),
            has_tenant: row.tenant_id == tenant.as_uuid(),
            is_from_client: row.kind.starts_with("user."),
            is_sessions: row.run_id.is_none() && OF_SESSIONS.contains(&&*row.kind),
            id: row.event_id,
            body,
        });
    }
    Ok(events)
}
