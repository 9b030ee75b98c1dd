//! Export and import of sessions.

use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{StoreError, unreadable};
use crate::domain::event::NewEvent;
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::message::Role;
use crate::domain::outcome::Outcome;
use crate::domain::run_status::RunStatus;
use crate::domain::tool::CallState;
use crate::domain::usage::Usage;

/// Counts the messages of a session, which are numbered from 1 without a gap. Returns `None` if the
/// tenant does not have the session.
pub async fn count_messages(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: SessionId,
) -> Result<Option<i32>, StoreError> {
    Ok(sqlx::query_scalar!(
        "SELECT last_message_seq FROM sessions WHERE id = $1 AND tenant_id = $2",
        id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(conn)
    .await?)
}

/// The history of an imported session.
#[derive(Debug, Default)]
pub struct History {
    /// Its runs, in their order.
    pub runs: Vec<ImportedRun>,
    /// Its messages, in their order.
    pub messages: Vec<ImportedMessage>,
    /// Their tool calls.
    pub calls: Vec<ImportedCall>,
    /// The events that report all this, in order.
    pub events: Vec<(RunId, NewEvent)>,
}

/// A settled run.
#[derive(Debug)]
pub struct ImportedRun {
    /// The ID.
    pub id: RunId,
    /// The final status.
    pub status: RunStatus,
    /// The number of the event of its message.
    pub accepted_seq: i64,
    /// The ID of its message.
    pub message_id: String,
    /// The blocks of its message.
    pub input: String,
    /// The outcome.
    pub outcome: Outcome,
}

/// A message.
#[derive(Debug)]
pub struct ImportedMessage {
    /// Its run.
    pub run_id: RunId,
    /// The role.
    pub role: Role,
    /// The model's, the client's or our ID.
    pub message_id: String,
    /// The blocks.
    pub content: String,
    /// The model that wrote it.
    pub model: Option<String>,
    /// The number of the last event up to and including those that report it.
    pub last_event: i64,
    /// The model's stop reason, as sent by the model.
    pub stop_reason: Option<String>,
    /// The stop sequence that the model wrote.
    pub stop_sequence: Option<String>,
    /// The usage of the request, as reported where it was made.
    pub usage: Option<Usage>,
}

/// A tool call with its result. It was executed elsewhere, so the ledger treats it as a client's
/// call.
#[derive(Debug)]
pub struct ImportedCall {
    /// Its run.
    pub run_id: RunId,
    /// The message that contains the call.
    pub message_seq: i32,
    /// Its position among the calls of the message, from 1.
    pub position: i32,
    /// The model's ID of the call.
    pub tool_use_id: String,
    /// The tool's name.
    pub name: String,
    /// The final state.
    pub state: CallState,
    /// The result as the model reads it.
    pub result: String,
    /// Content blocks of a result that is more than a text.
    pub content: Option<String>,
}

/// Stores the history of a session that has none.
pub async fn insert_history(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: SessionId,
    history: &History,
) -> Result<(), StoreError> {
    insert_runs(conn, tenant, id, &history.runs).await?;
    insert_messages(conn, tenant, id, &history.messages).await?;
    insert_calls(conn, tenant, id, &history.calls).await?;
    insert_events(conn, tenant, id, &history.events).await?;
    let stop_reason = history.runs.last().map(|run| json(&run.outcome.stop_reason)).transpose()?;
    sqlx::query!(
        "UPDATE sessions SET last_seq = $2, last_message_seq = $3, stop_reason = ($4::text)::json
         WHERE id = $1",
        id.as_uuid(),
        i64::try_from(history.events.len()).unwrap_or(i64::MAX),
        i32::try_from(history.messages.len()).unwrap_or(i32::MAX),
        stop_reason,
    )
    .execute(conn)
    .await?;
    Ok(())
}

fn json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(unreadable("runs", "outcome"))
}

async fn insert_runs(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: SessionId,
    runs: &[ImportedRun],
) -> Result<(), StoreError> {
    let ids: Vec<Uuid> = runs.iter().map(|run| run.id.as_uuid()).collect();
    let statuses: Vec<String> = runs.iter().map(|run| run.status.as_str().to_owned()).collect();
    let seqs: Vec<i64> = runs.iter().map(|run| run.accepted_seq).collect();
    let message_ids: Vec<String> = runs.iter().map(|run| run.message_id.clone()).collect();
    let inputs: Vec<String> = runs.iter().map(|run| run.input.clone()).collect();
    let outcomes = runs.iter().map(|run| json(&run.outcome)).collect::<Result<Vec<_>, _>>()?;
    sqlx::query!(
        "INSERT INTO runs (id, session_id, tenant_id, status, accepted_seq, message_id, input,
                           outcome, attempt, fingerprint, imported, started_at, finished_at)
         SELECT r.id, $1, $2, r.status, r.accepted_seq, r.message_id, r.input::json,
                r.outcome::json, 1, '', true, now(), now()
         FROM unnest($3::uuid[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::text[])
              AS r (id, status, accepted_seq, message_id, input, outcome)",
        id.as_uuid(),
        tenant.as_uuid(),
        &ids,
        &statuses,
        &seqs,
        &message_ids,
        &inputs,
        &outcomes,
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn insert_messages(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: SessionId,
    messages: &[ImportedMessage],
) -> Result<(), StoreError> {
    let run_ids: Vec<Uuid> = messages.iter().map(|message| message.run_id.as_uuid()).collect();
    let roles: Vec<String> = messages.iter().map(|it| it.role.as_str().to_owned()).collect();
    let ids: Vec<String> = messages.iter().map(|message| message.message_id.clone()).collect();
    let contents: Vec<String> = messages.iter().map(|message| message.content.clone()).collect();
    let models: Vec<Option<String>> = messages.iter().map(|it| it.model.clone()).collect();
    let stops: Vec<Option<String>> = messages.iter().map(|it| it.stop_reason.clone()).collect();
    let sequences: Vec<Option<String>> =
        messages.iter().map(|it| it.stop_sequence.clone()).collect();
    let usages = messages.iter().map(|message| message.usage.as_ref().map(json).transpose());
    let usages = usages.collect::<Result<Vec<_>, _>>()?;
    let last_events: Vec<i64> = messages.iter().map(|message| message.last_event).collect();
    sqlx::query!(
        "INSERT INTO messages (session_id, seq, tenant_id, run_id, attempt, role, message_id,
                               content, model, stop_reason, usage, stop_sequence,
                               last_event)
         SELECT $1, m.ord, $2, m.run_id, 1, m.role, m.message_id, m.content::json, m.model,
                m.stop_reason, m.usage::json, m.stop_sequence, m.last_event
         FROM unnest($3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                     $9::text[], $10::text[], $11::bigint[]) WITH ORDINALITY
              AS m (run_id, role, message_id, content, model, stop_reason, usage, stop_sequence,
                    last_event, ord)",
        id.as_uuid(),
        tenant.as_uuid(),
        &run_ids,
        &roles,
        &ids,
        &contents,
        &models as &[Option<String>],
        &stops as &[Option<String>],
        &usages as &[Option<String>],
        &sequences as &[Option<String>],
        &last_events,
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn insert_calls(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: SessionId,
    calls: &[ImportedCall],
) -> Result<(), StoreError> {
    let run_ids: Vec<Uuid> = calls.iter().map(|call| call.run_id.as_uuid()).collect();
    let seqs: Vec<i32> = calls.iter().map(|call| call.message_seq).collect();
    let positions: Vec<i32> = calls.iter().map(|call| call.position).collect();
    let ids: Vec<String> = calls.iter().map(|call| call.tool_use_id.clone()).collect();
    let names: Vec<String> = calls.iter().map(|call| call.name.clone()).collect();
    let states: Vec<String> = calls.iter().map(|call| call.state.as_str().to_owned()).collect();
    let results: Vec<String> = calls.iter().map(|call| call.result.clone()).collect();
    let contents: Vec<Option<String>> = calls.iter().map(|call| call.content.clone()).collect();
    sqlx::query!(
        "INSERT INTO tool_calls (session_id, tenant_id, run_id, message_seq, position, tool_use_id,
                                 name, state, result, content, awaits, answer_by, finished_at)
         SELECT $1, $2, c.run_id, c.message_seq, c.position, c.tool_use_id, c.name, c.state,
                c.result, c.content::json, 'client', now(), now()
         FROM unnest($3::uuid[], $4::int[], $5::int[], $6::text[], $7::text[], $8::text[],
                     $9::text[], $10::text[])
              AS c (run_id, message_seq, position, tool_use_id, name, state, result, content)",
        id.as_uuid(),
        tenant.as_uuid(),
        &run_ids,
        &seqs,
        &positions,
        &ids,
        &names,
        &states,
        &results,
        &contents as &[Option<String>],
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn insert_events(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: SessionId,
    events: &[(RunId, NewEvent)],
) -> Result<(), StoreError> {
    let run_ids: Vec<Uuid> = events.iter().map(|(run, _)| run.as_uuid()).collect();
    let ids: Vec<String> = events.iter().map(|(_, event)| event.id.clone()).collect();
    let kinds: Vec<String> = events.iter().map(|(_, event)| event.kind.to_owned()).collect();
    let bodies: Vec<String> = events.iter().map(|(_, event)| event.body.clone()).collect();
    sqlx::query!(
        "INSERT INTO events (session_id, seq, tenant_id, run_id, event_id, type, body)
         SELECT $1, e.ord, $2, e.run_id, e.id, e.kind, e.body::json
         FROM unnest($3::uuid[], $4::text[], $5::text[], $6::text[]) WITH ORDINALITY
              AS e (run_id, id, kind, body, ord)",
        id.as_uuid(),
        tenant.as_uuid(),
        &run_ids,
        &ids,
        &kinds,
        &bodies,
    )
    .execute(conn)
    .await?;
    Ok(())
}
