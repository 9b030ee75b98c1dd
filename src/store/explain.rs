//! The facts that explain a run's state, read in one statement.

use jiff_sqlx::Timestamp;
use serde::Deserialize;
use sqlx::PgConnection;

use super::{StoreError, unreadable};
use crate::domain::explanation::{Facts, Latest, OpenCall};
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::limits::Limits;
use crate::domain::permission::Awaits;
use crate::domain::run_options::RunOptions;
use crate::domain::run_status::RunStatus;
use crate::domain::tool::CallState;

struct Row {
    now: Timestamp,
    status: String,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    cancel_requested_at: Option<Timestamp>,
    lease_until: Option<Timestamp>,
    waiting_since: Option<Timestamp>,
    wake_at: Option<Timestamp>,
    options: String,
    limits: Option<String>,
    outcome: Option<String>,
    queue_position: Option<i64>,
    takeovers: i32,
    behind: Option<uuid::Uuid>,
    idle_since: Option<Timestamp>,
    calls: Option<String>,
    latest_kind: Option<String>,
    latest_body: Option<String>,
    latest_at: Option<Timestamp>,
}

/// Reads the facts that explain a run. Returns `None` if the tenant does not have the run.
///
/// The time limits of tools are not in the database: calls have no deadline here, except those that
/// await an answer.
pub async fn find(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    run_id: RunId,
) -> Result<Option<Facts>, StoreError> {
    let row = sqlx::query_file_as!(
        Row,
        "src/store/explain.sql",
        run_id.as_uuid(),
        session_id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    row.map(|row| facts(run_id, row)).transpose()
}

fn facts(run_id: RunId, row: Row) -> Result<Facts, StoreError> {
    let options: RunOptions =
        serde_json::from_str(&row.options).map_err(unreadable("runs", "options"))?;
    let limits: Option<Limits> = row
        .limits
        .map(|text| serde_json::from_str(&text).map_err(unreadable("sessions", "settings")))
        .transpose()?;
    let limits = options.limits.or(&limits.unwrap_or_default());
    let latest_at = row.latest_at.map(Timestamp::to_jiff);
    let latest = latest(row.latest_kind.as_deref(), row.latest_body.as_deref())?;
    let outcome = row
        .outcome
        .map(|text| serde_json::from_str(&text).map_err(unreadable("runs", "outcome")))
        .transpose()?;
    Ok(Facts {
        now: row.now.to_jiff(),
        run_id,
        status: RunStatus::parse(&row.status)
            .ok_or_else(|| unreadable("runs", "status")(&row.status))?,
        created_at: row.created_at.to_jiff(),
        started_at: row.started_at.map(Timestamp::to_jiff),
        finished_at: row.finished_at.map(Timestamp::to_jiff),
        cancel_requested_at: row.cancel_requested_at.map(Timestamp::to_jiff),
        lease_until: row.lease_until.map(Timestamp::to_jiff),
        waiting_since: row.waiting_since.map(Timestamp::to_jiff),
        wake_at: row.wake_at.map(Timestamp::to_jiff),
        limit_seconds: limits.seconds,
        outcome,
        takeovers: row.takeovers,
        queue_position: row.queue_position,
        // Only a role that sees all tenants knows it.
        queue: None,
        behind: row.behind.map(Into::into),
        idle_since: row.idle_since.map(Timestamp::to_jiff),
        calls: row.calls.as_deref().map_or_else(|| Ok(Vec::new()), calls)?,
        latest: latest.zip(latest_at),
    })
}

fn latest(kind: Option<&str>, body: Option<&str>) -> Result<Option<Latest>, StoreError> {
    #[derive(Deserialize)]
    struct Rescheduled {
        attempt: u32,
        retry_at: jiff::Timestamp,
    }
    Ok(match kind {
        None => None,
        Some("span.model_request_start") => Some(Latest::Request),
        Some("session.status_rescheduled") => {
            let Rescheduled { attempt: failures, retry_at } =
                serde_json::from_str(body.unwrap_or_default())
                    .map_err(unreadable("events", "body"))?;
            Some(Latest::Rescheduled { failures, retry_at })
        }
        Some(_) => Some(Latest::Other),
    })
}

fn calls(json: &str) -> Result<Vec<OpenCall>, StoreError> {
    #[derive(Deserialize)]
    struct Call {
        tool_use_id: String,
        name: String,
        state: String,
        since: jiff::Timestamp,
        awaits: Option<String>,
        answer_by: Option<jiff::Timestamp>,
    }
    let calls: Vec<Call> =
        serde_json::from_str(json).map_err(unreadable("tool_calls", "started_at"))?;
    calls
        .into_iter()
        .map(|Call { tool_use_id, name, state, since, awaits, answer_by }| {
            let state = CallState::parse(&state)
                .ok_or_else(|| unreadable("tool_calls", "state")(&state))?;
            let awaits = awaits.as_deref().and_then(Awaits::parse);
            Ok(OpenCall { tool_use_id, name, state, since, awaits, deadline: answer_by })
        })
        .collect()
}
